"""The report: run folders in, one static folder of pages out that opens from disk."""

"""Generated scenes in which two to six things move for six seconds."""

"""Tests of the evaluators."""

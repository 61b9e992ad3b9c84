"""The checks, cheapest first, one idea a file. Each takes the trial and returns its row, or raises Failed."""

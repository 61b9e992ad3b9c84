"""Five attention variants that people bring, each a problem by itself."""

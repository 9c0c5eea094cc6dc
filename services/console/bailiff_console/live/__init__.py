"""One pool live: followed, made into rows, told to all pages."""

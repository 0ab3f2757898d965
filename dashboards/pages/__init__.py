"""One module a page; each has a `PAGE`. A page that is put here is found by the application, and nothing else has to know it."""

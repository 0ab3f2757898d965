"""How fast, how dear and how big is Lastack itself? Benchmarks, never timed tests: figures are reported, nothing fails on them.

`base` says what a figure is, each other module is one benchmark, `__main__` runs them (`make bench`). A figure is a ratio within one
run, or a median or percentile over many samples of one run, and the machine's load stands beside it: absolute figures of a busy machine
say little.
"""

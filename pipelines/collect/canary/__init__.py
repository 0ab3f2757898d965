"""Is each partition served, ten times a second? The canary writes and reads its own topics and records what became of each probe.

`config` says what it is told, `lane` when probes are issued and what their answers mean, `pacer` drives the lanes and notices when
the prober itself was blind, `identity` is what a canary record says, `journal` writes all of it down, `run` is the process.
"""

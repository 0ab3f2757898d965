"""Lastack's pages: they read gold through `pipelines.serving` and start no JVM."""

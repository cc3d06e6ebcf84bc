"""Two lines in a training that a library runs: ``huggingface`` for its ``Trainer``, ``lightning`` for Lightning's.

Nothing is imported here, so that neither library is needed for the other.
"""

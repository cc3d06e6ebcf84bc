"""Two lines in a training that a library runs: ``huggingface`` for its ``Trainer``, ``language`` for language models
in it, ``lightning`` for Lightning's.

Nothing is imported here, so that no library is needed for another.
"""

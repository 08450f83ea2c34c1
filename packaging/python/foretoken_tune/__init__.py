"""Trains a drafter on the shards that `foretoken tune` writes.

foretoken starts this package as `python -m foretoken_tune train JOB.json` and reads its progress: one JSON object a
line on standard output. The only package needed is PyTorch. The drafter depends on the job and the shards alone:
seeds and the order of the data are fixed, and a run that was stopped continues from its last checkpoint.
"""

"""The net and the deep search on a Dask cluster: workers evaluate, the driver samples, screens and alone writes.

`evaluators.open_on_cluster` gives a net and an oracle that take jobs and give futures, as those of this machine do;
that is all that a loop has to know of a cluster:

- net: ``answer(batch)`` gives a future of (values, failed rows), ``at_once`` batches are worth having submitted;
- oracle: ``submit(position)`` and ``climb(position, rungs, go_on)`` give futures, ``capacity`` are worth having
  submitted, ``close(cancel=True)`` gives all up.

Each future is done as soon as its result has come here: what lies on a worker dies with it.

What is Dask's: to place chunks of jobs on workers, to do again what a lost worker had in hand, to give up on what loses
workers again and again (KilledWorker), heartbeats, the connection. What is ours: which workers have the right net and
engine (`worker`), how large a chunk is (`dispatcher`), and which position it was that workers died of.
"""

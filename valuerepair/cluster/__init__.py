"""The net and the deep search on a Dask cluster: workers evaluate, the driver samples, screens and alone writes.

`evaluators.open_on_cluster` gives a net and a judge that take jobs and return futures, as those of this machine do.
This is all that a loop needs to know about a cluster:

- net: ``answer(batch)`` gives a future of (values, failed rows); ``at_once`` batches should be submitted at a time;
- judge: ``submit(position, nodes)`` gives a future; ``capacity`` of them should be submitted at a time;
  ``close(cancel=True)`` abandons all of them.

A future is done as soon as its result has arrived at the driver: a worker that dies takes its results with it.

Dask places chunks of jobs on workers, repeats those that a lost worker had, gives up on jobs that lose one worker after
another (KilledWorker), and does heartbeats and the connection. We choose the workers with the right net and engine
(`worker`) and the size of a chunk (`dispatcher`), and find the position that killed workers.
"""

"""Scores batches of a Spark DataFrame with one model per executor's Python process. Spark ships this file to the executors (addPyFile): what a
module holds stays between tasks, what a task's closure holds does not."""

import threading

import dpi

_models, _lock = {}, threading.Lock()


def model_of(bundle, options):
    """The process's model of that bundle, loaded by the first task that asks. Spark forks its Python processes before any task runs, so
    none has a parent's model."""
    key = (bundle, tuple(sorted(options.items())))
    with _lock:
        if key not in _models:
            _models[key] = dpi.Model(bundle, **options)
        return _models[key]


def scorer(bundle, split=None, **options):
    """A function for DataFrame.mapInPandas: batches with a column for each head behind those that are there. bundle: a path that every
    executor can read. split: {column: mark} of columns whose text holds a list."""

    def score(batches):
        model = model_of(bundle, options)
        for batch in batches:
            columns = {f.name: batch[f.name] for f in model.features if f.name in batch}
            columns.update({name: batch[name].str.split(mark, regex=False) for name, mark in (split or {}).items()})
            scores = model.predict_raw(columns)
            yield batch.assign(**{head: scores[:, i] for i, head in enumerate(model.heads)})

    return score

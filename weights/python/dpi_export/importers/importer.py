"""The protocol of an importer. export() (run.py) takes one through its course: build, compare with the library, golden rows, write. An importer knows
its library; the course knows what is compared and what is refused.

`rows` is whatever the library's own model is called with; only the importer looks into it. All refusals are UnsupportedModelError.
"""

from typing import Any, Dict, Optional, Protocol, Tuple

import numpy as np

from ..bundle.builder import Builder


class Refusing(Protocol):
    """The context of an import: its refusals name the model and the place."""

    def refuse(self, where: Any, why: str) -> None:
        """Raises UnsupportedModelError; `where` is a layer or a text."""


class Importer(Protocol):
    """One import of one model. `b` has the features once it is made, the ops and heads after build()."""

    library: str   #: name of the distribution, which the provenance states with its version
    model: Any     #: in evaluation mode; it is asked for its parameters
    b: Builder
    ctx: Refusing

    def build(self) -> Builder:
        """Carries the model over into `b`, or refuses the layer or option that it does not know."""

    def columns(self, rows: Any) -> Dict[str, Any]:
        """Rows as columns of the bundle's features: ids, bags or floats."""

    def random_rows(self, rng: np.random.Generator, n: int) -> Any:
        """Rows that reach every id, padding and empty bags."""

    def put(self, rows: Any, name: str, values: Any) -> None:
        """Sets a feature's part of rows: ids, bags or floats."""

    def join(self, a: Any, b: Any) -> Any:
        """Rows of `a`, then of `b`."""

    def run(self, rows: Any, dtype: Any = None) -> Tuple[np.ndarray, np.ndarray]:
        """(values, logits) [rows, heads] of the library's own model, in its type or in `dtype`."""


class TracedImporter(Importer, Protocol):
    """An importer that also knows where a model decides, and which rows it has a score for. The course asks for each of these methods by its
    name, so an importer may have some of them."""

    def select(self, rows: Any, keep: np.ndarray) -> Any:
        """Some of the rows, by a mask or positions."""

    def known(self, value: np.ndarray, logit: np.ndarray, rows: Any, made: int = 0) -> np.ndarray:
        """[rows] True where the model has a score. The exporter made the last `made` rows, the others are the caller's."""

    def edge_rows(self, rng: np.random.Generator) -> Optional[Any]:
        """Rows on and beside the edges at which the model decides otherwise."""

    def check_batch_sizes(self) -> None:
        """Refuses a model whose scores depend on the number of rows."""


class ImporterKind(Protocol):
    """Makes an Importer: a class of this package, called by export(). It is made a second time where tables are stored in `table_dtype`."""

    def __call__(self, model: Any, feature_map: Any, *, encoders: Optional[dict] = None, stats: Optional[dict] = None,
                 features: Optional[dict] = None, name: Optional[str] = None, table_dtype: Optional[str] = None) -> Importer:
        """`feature_map` describes the features as the library does; the others are keywords of from_fuxictr."""

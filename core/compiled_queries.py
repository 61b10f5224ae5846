"""Querysets of busy pages, whose SQL is compiled once in a process.

Django compiles the SQL of a queryset each time that it is read. With joins and subqueries this takes 1 to 3
ms, which is more than PostgreSQL takes to answer, and a page reads a dozen of them.
docs/decisions/0038-compiled-queries.md gives the reasons.
"""

import copy
import uuid
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from django.db import DEFAULT_DB_ALIAS, connection, connections
from django.db.models import (
    BooleanField,
    CharField,
    ForeignKey,
    IntegerField,
    Model,
    QuerySet,
    TextField,
    UUIDField,
)
from django.db.models.base import ModelState
from django.db.models.expressions import RawSQL
from django.db.models.query import ModelIterable, RelatedPopulator
from django.utils.functional import cached_property

from core.prepared_statements import Rows, run_prepared

Row = TypeVar("Row", covariant=True)


@dataclass(frozen=True, slots=True)
class NamedValue:
    """A placeholder among the parameters of a query, whose value is set when the query runs."""

    name: str


def named_value(name: str) -> RawSQL:
    return RawSQL("%s", [NamedValue(name)])


def named_keys(name: str) -> RawSQL:
    """Return a placeholder for a list of primary keys, for `pk__in=`."""
    return RawSQL("SELECT unnest(%s::bigint[])", [NamedValue(name)])


def is_any_of(column: str, name: str) -> RawSQL:
    """Return a condition for a column of the queryset's table, for `filter()`. With many joins
    PostgreSQL plans it better than `named_keys`, which adds a join.
    """
    condition = f"{column} = ANY(%s::bigint[])"
    return RawSQL(condition, [NamedValue(name)], output_field=BooleanField())  # noqa: S611 - named in code


Instance = TypeVar("Instance", bound=Model)


def build_instance(
    model: type[Instance], names: Sequence[str], values: Sequence[Any], alias: str = DEFAULT_DB_ALIAS
) -> Instance:
    """Return an instance of `model` with the values of these columns, as `Model.from_db` does. It is filled
    directly, because a page reads hundreds and no model handles the signals of its constructor.
    """
    instance = model.__new__(model)
    instance._state = state = ModelState()
    state.adding, state.db = False, alias
    vars(instance).update(zip(names, values, strict=True))
    return instance


class _RowReader:
    """Builds the objects of a query, whose columns are always the same.

    Rows with the same related object share it: 40 tools of one vendor have one object for the vendor.
    """

    def __init__(self, compiler: Any, alias: str) -> None:
        select, described = compiler.select, compiler.klass_info
        columns = described["select_fields"]
        self._model, self._columns = described["model"], slice(columns[0], columns[-1] + 1)
        self._names = [column[0].target.attname for column in select[self._columns]]
        self._alias, self._annotations = alias, compiler.annotation_col_map or {}
        self._relations = [
            RelatedPopulator(related, select, alias)  # type: ignore[call-arg] # stubs of a newer Django
            for related in described.get("related_klass_infos", [])
        ]

    def read(self, rows: Iterable[Sequence[Any]]) -> list[Any]:
        shared: dict[tuple[int, object], Model] = {}
        objects = []
        for row in rows:
            instance = build_instance(self._model, self._names, row[self._columns], self._alias)
            for relation in self._relations:
                self._relate(relation, row, instance, shared)
            for name, column in self._annotations.items():
                setattr(instance, name, row[column])
            objects.append(instance)
        return objects

    def _relate(
        self,
        relation: RelatedPopulator,
        row: Sequence[Any],
        source: Model,
        shared: dict[tuple[int, object], Model],
    ) -> None:
        reorder = relation.reorder_for_init
        values = reorder(row) if reorder else row[relation.cols_start : relation.cols_end]
        key = id(relation), values[relation.pk_idx]
        if key[1] is None:
            relation.local_setter(source, None)
        elif key in shared:
            relation.local_setter(source, shared[key])
        else:
            shared[key] = related = build_instance(
                relation.model_cls, relation.init_list, values, self._alias
            )
            for below in relation.related_populators:
                self._relate(below, row, related, shared)
            relation.local_setter(source, related)
            relation.remote_setter(related, source)


class CompiledQuery(Generic[Row]):
    """The rows of a queryset that differs only in its named values. It cannot be filtered further.

    queryset: a function that returns it, if a module defines the query before the models are ready.
    """

    def __init__(self, queryset: QuerySet[Any, Row] | Callable[[], QuerySet[Any, Row]]) -> None:
        self._source = queryset

    # Django's takes no lock, which a process that is forked meanwhile would never get.
    @cached_property
    def _compiled(self) -> "_Compiled":
        return _Compiled(self._source if isinstance(self._source, QuerySet) else self._source())

    def rows(self, **values: object) -> list[Row]:
        compiled = self._compiled
        return compiled.fetch(compiled.compiler_for(compiled.parameters(values)))


class PreparedQuery(CompiledQuery[Row]):
    """A compiled query that each connection also plans once, which takes longer than to run it.

    PostgreSQL stores the plan after five runs, about 0.2 MB for ten tables, unless a plan for the values of
    each run promises to be cheaper.
    """

    def rows(self, **values: object) -> list[Row]:
        compiled = self._compiled
        parameters = compiled.parameters(values)
        rows = run_prepared(compiled.sql, parameters)
        compiler = compiled.compiler_for(parameters)
        # `execute_sql` returns chunks of rows.
        compiler.execute_sql = lambda *_, **__: [rows]
        return compiled.fetch(compiler)


class PreparedQueryByKeys(Generic[Row]):
    """A prepared query of the rows whose `column` is one of some keys.

    A single key has a statement of its own: PostgreSQL assumes ten keys in any list, so for a list with one
    it would plan each time.
    """

    def __init__(self, column: str, rows_where: Callable[[RawSQL], QuerySet[Any, Row]]) -> None:
        is_equal = RawSQL(f"{column} = %s::bigint", [NamedValue("key")], output_field=BooleanField())  # noqa: S611 - named in code
        self._of_one = PreparedQuery(lambda: rows_where(is_equal))
        self._of_several = PreparedQuery(lambda: rows_where(is_any_of(column, "keys")))

    def rows(self, keys: Collection[int]) -> list[Row]:
        if len(keys) == 1:
            return self._of_one.rows(key=next(iter(keys)))
        return self._of_several.rows(keys=list(keys)) if keys else []


class _Compiled:
    def __init__(self, queryset: QuerySet[Any, Any]) -> None:
        self._queryset = queryset
        self._compiler = queryset.query.get_compiler(queryset.db)
        self.sql, self._params = self._compiler.as_sql()
        self._converters: Any = None
        is_plain = not (queryset._known_related_objects or queryset._prefetch_related_lookups)  # type: ignore[attr-defined]
        has_objects = is_plain and queryset._iterable_class is ModelIterable
        self._reader = _RowReader(self._compiler, queryset.db) if has_objects else None

    def parameters(self, values: Mapping[str, object]) -> list[Any]:
        return [values[p.name] if isinstance(p, NamedValue) else p for p in self._params]

    def compiler_for(self, parameters: Sequence[Any]) -> Any:
        # A connection belongs to one thread. Threads only read the other attributes of the compiler.
        compiler: Any = copy.copy(self._compiler)
        compiler.connection = connections[self._queryset.db]
        compiler.get_converters = self._known_converters
        compiler.as_sql = lambda *_, **__: (self.sql, tuple(parameters))
        return compiler

    def _known_converters(self, expressions: Any) -> Any:
        # The columns never change, so their converters do not either.
        if self._converters is None:
            self._converters = self._compiler.get_converters(expressions)
        return self._converters

    def fetch(self, compiler: Any) -> list[Any]:
        if self._reader:
            rows = compiler.results_iter(compiler.execute_sql())
            return self._reader.read(rows)
        queryset = self._queryset.all()
        queryset.query.get_compiler = lambda *_, **__: compiler  # type: ignore[method-assign]
        return list(queryset)


# Types that Django passes to the database unchanged, by class of field. Calling the field takes longer.
_PLAIN_TYPES: tuple[tuple[type[object], type], ...] = (
    (CharField, str),
    (TextField, str),
    (BooleanField, bool),
    (IntegerField, int),
    (ForeignKey, int),
    (UUIDField, uuid.UUID),
)


class PreparedInsert:
    """Inserts a row of `model` with one prepared statement.

    expressions: SQL in place of a value, by column. where: a condition for the insert. Both may contain %s.
    has_key: the row has a primary key already; otherwise the database generates it.
    """

    def __init__(
        self,
        model: type[Model],
        *,
        expressions: Mapping[str, str] | None = None,
        where: str = "",
        returning: Sequence[str] = (),
        has_key: bool = False,
    ) -> None:
        expressions = expressions or {}
        pk = model._meta.pk
        fields = [field for field in model._meta.concrete_fields if has_key or field is not pk]
        value_fields = [field for field in fields if field.column not in expressions]
        self._value_fields = [
            (
                field,
                next((kind for field_class, kind in _PLAIN_TYPES if isinstance(field, field_class)), None),
            )
            for field in value_fields
        ]
        columns = [*(str(field.column) for field in value_fields), *expressions]
        # Without a type a parameter would be text. A cast to varchar(10) would cut longer values silently.
        types = [str(field.db_type(connection)) for field in value_fields]
        values = [f"%s::{'text' if kind.startswith('varchar') else kind}" for kind in types]
        self._returning = [str(pk.column if pk else ""), *returning]
        self._sql = (
            f"INSERT INTO {model._meta.db_table} ({', '.join(columns)}) "
            f"SELECT {', '.join([*values, *expressions.values()])} {where} "
            f"RETURNING {', '.join(self._returning)}"
        )

    def write(self, row: Model, params: Sequence[object] = ()) -> bool:
        """Insert the row and return whether `where` allowed it. params: for the expressions and `where`."""
        return self.take(row, run_prepared(*self.statement(row, params)))

    def statement(self, row: Model, params: Sequence[object] = ()) -> tuple[str, list[object]]:
        """Return the statement for `run_together`; `take` receives its result."""
        values = [(field, kind, getattr(row, field.attname)) for field, kind in self._value_fields]
        return self._sql, [
            *(
                value if value is None or type(value) is kind else field.get_db_prep_save(value, connection)
                for field, kind, value in values
            ),
            *params,
        ]

    def take(self, row: Model, rows: Rows) -> bool:
        if not rows:
            return False
        row.pk, *returned = rows[0]
        for column, value in zip(self._returning[1:], returned, strict=True):
            setattr(row, column, value)
        row._state.adding, row._state.db = False, connection.alias
        return True

"""Querysets of busy pages, whose SQL is compiled once in a process.

Django compiles the SQL of a queryset each time that it is read. With joins and subqueries this takes 1 to 3
ms, which is more than PostgreSQL takes to answer, and a page reads a dozen of them.
docs/decisions/0038-compiled-queries.md gives the reasons.
"""

import copy
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Generic, TypeVar, cast

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
from django.db.models.query import (
    FlatValuesListIterable,
    ModelIterable,
    RelatedPopulator,
    ValuesListIterable,
)
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


# For a column: its name, and Django's functions that turn the database's value into that of the field.
_Converters = Sequence[tuple[str, Sequence[Callable[..., Any]], Any]]


class _ObjectReader:
    """Builds the objects of one model out of rows, which share those with the same primary key.

    positions: of the object's columns in a row; names: of its attributes, in the same order.
    """

    def __init__(
        self, model: type[Model], names: Sequence[str], positions: Sequence[int], converters: Any, alias: str
    ) -> None:
        self._model, self._names, self._alias = model, names, alias
        start, end = positions[0], positions[-1] + 1
        is_slice = list(positions) == list(range(start, end))
        self._take = itemgetter(slice(start, end)) if is_slice else itemgetter(*positions)
        self._converters: _Converters = [
            (name, *converters[position])
            for name, position in zip(names, positions, strict=True)
            if position in converters
        ]

    def build(self, row: Sequence[Any], connection: Any) -> Model:
        instance = build_instance(self._model, self._names, self._take(row), self._alias)
        values = vars(instance)
        for name, functions, expression in self._converters:
            value = values[name]
            for convert in functions:
                value = convert(value, expression, connection)
            values[name] = value
        return instance


class _Relation:
    """Builds the related objects of a query's rows, and relates each to the object that it is read with."""

    def __init__(self, populator: Any, columns: int, converters: Any, alias: str) -> None:
        numbers = range(columns)
        reorder = populator.reorder_for_init
        positions = reorder(numbers) if reorder else numbers[populator.cols_start : populator.cols_end]
        self._reader = _ObjectReader(
            populator.model_cls, populator.init_list, list(positions), converters, alias
        )
        self._pk_position = positions[populator.pk_idx]
        self._relate, self._relate_back = populator.local_setter, populator.remote_setter
        self._below = [_Relation(below, columns, converters, alias) for below in populator.related_populators]

    def relate(
        self, row: Sequence[Any], source: Model, shared: dict[tuple[int, object], Model], connection: Any
    ) -> None:
        pk = row[self._pk_position]
        if pk is None:
            self._relate(source, None)
            return
        related = shared.get((id(self), pk))
        if related is None:
            shared[id(self), pk] = related = self._reader.build(row, connection)
            for below in self._below:
                below.relate(row, related, shared, connection)
            self._relate(source, related)
            self._relate_back(related, source)
        else:
            self._relate(source, related)


class _RowReader:
    """Builds the objects of a query, whose columns are always the same.

    Rows with the same related object share it: 40 tools of one vendor have one object for the vendor, whose
    values are converted once.
    """

    def __init__(self, compiler: Any, alias: str) -> None:
        select, described = compiler.select, compiler.klass_info
        converters = compiler.get_converters([column for column, *_ in select[: compiler.col_count]])
        columns = described["select_fields"]
        positions = range(columns[0], columns[-1] + 1)
        names = [select[position][0].target.attname for position in positions]
        self._reader = _ObjectReader(described["model"], names, positions, converters, alias)
        self._relations = [
            _Relation(RelatedPopulator(related, select, alias), len(select), converters, alias)  # type: ignore[call-arg] # stubs of a newer Django
            for related in described.get("related_klass_infos", [])
        ]
        self._annotations = [
            (name, position, *converters.get(position, ((), None)))
            for name, position in (compiler.annotation_col_map or {}).items()
        ]

    def read(self, rows: Rows, connection: Any) -> list[Any]:
        """Return the objects. rows: the values as the database sent them."""
        shared: dict[tuple[int, object], Model] = {}
        objects = []
        for row in rows:
            instance = self._reader.build(row, connection)
            for relation in self._relations:
                relation.relate(row, instance, shared, connection)
            for name, position, functions, expression in self._annotations:
                value = row[position]
                for convert in functions:
                    value = convert(value, expression, connection)
                setattr(instance, name, value)
            objects.append(instance)
        return objects


class _TupleReader:
    """Returns the rows of `values_list`, or with `is_flat` the values of its only column."""

    def __init__(self, compiler: Any, *, is_flat: bool) -> None:
        columns = [column for column, *_ in compiler.select[: compiler.col_count]]
        self._converters = list(compiler.get_converters(columns).items())
        # A query may also select what it sorts by.
        self._width, self._is_cut = compiler.col_count, compiler.has_extra_select
        self._is_flat = is_flat

    def read(self, rows: Rows, connection: Any) -> list[Any]:
        if self._is_cut:
            rows = [row[: self._width] for row in rows]
        if self._converters:
            rows = [self._convert_row(row, connection) for row in rows]
        return [row[0] for row in rows] if self._is_flat else rows

    def _convert_row(self, row: Sequence[Any], connection: Any) -> tuple[Any, ...]:
        values = list(row)
        for position, (functions, expression) in self._converters:
            for convert in functions:
                values[position] = convert(values[position], expression, connection)
        return tuple(values)


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
        parameters = compiled.parameters(values)
        return compiled.read(self._fetch_rows(compiled.sql, parameters), parameters)

    def _fetch_rows(self, sql: str, parameters: Sequence[object]) -> Rows:
        with connection.cursor() as cursor:
            cursor.execute(sql, cast(Any, parameters))
            return cast(Rows, cursor.fetchall())


class PreparedQuery(CompiledQuery[Row]):
    """A compiled query that each connection also plans once, which takes longer than to run it.

    PostgreSQL stores the plan after five runs, about 0.2 MB for ten tables, unless a plan for the values of
    each run promises to be cheaper.
    """

    def _fetch_rows(self, sql: str, parameters: Sequence[object]) -> Rows:
        return run_prepared(sql, parameters)


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
        self._reader: _RowReader | _TupleReader | None = None
        iterable: Any = queryset._iterable_class
        if queryset._known_related_objects or queryset._prefetch_related_lookups:  # type: ignore[attr-defined]
            return
        if iterable is ModelIterable:
            self._reader = _RowReader(self._compiler, queryset.db)
        elif iterable in (ValuesListIterable, FlatValuesListIterable):
            self._reader = _TupleReader(self._compiler, is_flat=iterable is FlatValuesListIterable)

    def parameters(self, values: Mapping[str, object]) -> list[Any]:
        return [values[p.name] if isinstance(p, NamedValue) else p for p in self._params]

    def read(self, rows: Rows, parameters: Sequence[Any]) -> list[Any]:
        """Return what the queryset returns for these rows of the database."""
        # A connection belongs to one thread. Threads only read the other attributes of the compiler.
        own_connection = connections[self._queryset.db]
        if self._reader:
            return self._reader.read(rows, own_connection)
        compiler: Any = copy.copy(self._compiler)
        compiler.connection = own_connection
        compiler.as_sql = lambda *_, **__: (self.sql, tuple(parameters))
        # `execute_sql` returns chunks of rows.
        compiler.execute_sql = lambda *_, **__: [[row[: compiler.col_count] for row in rows]]
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

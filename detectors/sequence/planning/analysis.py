"""From a syntax tree to a plan: resolves names, types and places conditions, finds partitions, makes the result type."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from itertools import pairwise

from detectors.language.query_errors import QueryError, TextSpan
from detectors.language.tree import Binary, Junction, Literal, SyntaxNode
from detectors.sequence.grammar.sequence_parser import parse
from detectors.sequence.grammar.syntax import Component, FieldReference, Index, QueryTree, SameFields
from detectors.sequence.planning.equalities import Equalities
from detectors.sequence.planning.field_kinds import common_columns, own_fields, resolved
from detectors.sequence.planning.match_results import result_of
from detectors.sequence.planning.sequence_expressions import Expressions, PatternVariable
from detectors.sequence.planning.sequence_plan import Condition, PatternStep, SequencePlan
from middleware.model.event import Event, EventType, EventTypes

Types = EventTypes | Mapping[str, EventType] | Iterable[EventType]


def plan(query: QueryTree | str, types: Types, name: str = "") -> SequencePlan:
    """The plan of a query over these event types, published under ``name``. Raises QueryError if it makes no sense."""
    tree = parse(query) if isinstance(query, str) else query
    known = types if isinstance(types, EventTypes) else EventTypes(types.values() if isinstance(types, Mapping) else types)
    try:
        return _Analysis(tree, known, name).plan()
    except QueryError as error:
        raise (error.located(tree.text) if tree.text else error) from None


class _Analysis:
    def __init__(self, query: QueryTree, types: EventTypes, name: str) -> None:
        self.query = query
        self.types = types
        self.kinds = [self._types_of(component) for component in query.components]
        self.name = name or (query.result.type if query.result is not None and query.result.type else "Match")
        self.variables = self._variables()
        self.expressions = Expressions(self.variables)
        self._check_pattern()

    def _types_of(self, component: Component) -> tuple[EventType, ...]:
        found = []
        for name in component.types:
            known = resolved(name, self.types)
            if known is None:
                tails = [each for each in self.types if each.rpartition(".")[2] == name]
                close = [*tails, *get_close_matches(name, self.types, 1, 0.5)][:3]
                there = ", ".join(sorted(self.types)) or "none"
                hint = f"; did you mean {' or '.join(close)}?" if close else f": there are {there}"
                raise QueryError(f"there is no event type {name}{hint}", component.span)
            found.append(self.types[known])
        return tuple(dict.fromkeys(found))

    def _variables(self) -> dict[str, PatternVariable]:
        variables: dict[str, PatternVariable] = {}
        for slot, (component, kinds) in enumerate(zip(self.query.components, self.kinds, strict=True)):
            if component.variable is None:
                continue
            if component.variable in variables:
                raise QueryError(f"two components are called {component.variable}: give each its own name", component.span)
            text = component.types[0] if len(component.types) == 1 else f"ANY({', '.join(component.types)})"
            variables[component.variable] = PatternVariable(
                component.variable, slot, common_columns(kinds), component.kleene, component.negated, text
            )
        return variables

    def _check_pattern(self) -> None:
        query = self.query
        positive = [component for component in query.components if not component.negated]
        if not positive:
            raise QueryError(
                "nothing but negation: a match needs an event, so add a component without !", query.components[0].span
            )
        if query.within is None and len(query.components) > 1:
            end = len(query.text.rstrip())
            hint = "add WITHIN 10 s, for instance: without a window nothing could ever be forgotten"
            raise QueryError(f"WITHIN is missing: {hint}", TextSpan(end, end + 1))
        if query.within is None and positive[0].kleene:
            raise QueryError("WITHIN is missing: a Kleene component needs a window", positive[0].span)

    def plan(self) -> SequencePlan:
        query = self.query
        conjuncts = self._conjuncts()
        equalities = Equalities(conjuncts, self.variables, query)
        tests = [Condition(each, self.expressions.condition(each)) for each in conjuncts]  # what is wrong shows here first
        tests += [Condition(each, self.expressions.condition(each)) for each in equalities.implied]
        tests = [test for test in tests if not equalities.is_kept_by_key(test.expression)]
        constant = [test for test in tests if not test.slots]
        tests = [test for test in tests if test.slots]
        negated = {slot for slot, component in enumerate(query.components) if component.negated}
        steps: list[PatternStep] = []
        negations: list[PatternStep] = []
        for slot, component in enumerate(query.components):
            step = self._step(slot, component, len(steps), tests, negated, equalities)
            (negations if component.negated else steps).append(step)
        own = {id(test) for step in (*steps, *negations) for test in (*step.filters, *step.conditions)}
        returned = result_of(query, self.name, self.kinds, self.expressions, self.types)
        return SequencePlan(
            query=query,
            name=self.name,
            strategy=query.strategy,
            within=query.within or 0,
            steps=tuple(steps),
            negations=tuple(negations),
            conditions=tuple(test for test in tests if id(test) not in own),
            result=returned.type,
            values=returned.values,
            fields=returned.fields,
            never=next((test for test in constant if not test.test()), None),
        )

    def _step(
        self, slot: int, component: Component, place: int, tests: list[Condition], negated: set[int], equalities: Equalities
    ) -> PatternStep:
        alone = [test for test in tests if set(test.slots) <= {slot} and not test.compiled.previous and not test.compiled.whole]
        if slot in negated:
            others = [test for test in tests if slot in test.slots and test not in alone]
            for test in others:
                self._check_negated(test, negated)
        else:
            others = []
        return PatternStep(
            slot=slot,
            place=place,
            variable=component.variable or "",
            types=self.kinds[slot],
            kleene=component.kleene,
            negated=component.negated,
            filters=tuple(alone),
            conditions=tuple(others),
            key=equalities.key(slot),
        )

    def _check_negated(self, test: Condition, negated: set[int]) -> None:
        others = [v.name for v in self.variables.values() if v.slot in negated and v.slot in test.slots]
        if len(others) > 1:
            message = f"{' and '.join(others)} are both negated, and never occur together"
            raise QueryError(f"{message}: compare each with components that are not negated", test.expression.span)

    def _conjuncts(self) -> list[SyntaxNode]:
        """The terms of WHERE that must all hold, with ``[id]`` expanded."""
        found: list[SyntaxNode] = []
        waiting = [self.query.where] if self.query.where is not None else []
        while waiting:
            term = waiting.pop(0)
            if isinstance(term, Junction) and term.operator == "AND":
                waiting[:0] = term.operands
            elif isinstance(term, SameFields):
                found += self._written_out(term)
            else:
                self._check_equality(term)
                found.append(term)
        return found

    def _written_out(self, same: SameFields) -> list[SyntaxNode]:
        variables = list(self.variables.values())
        if len(variables) < len(self.query.components):
            nameless = next(component for component in self.query.components if component.variable is None)
            raise QueryError(f"{same} needs every component to have a variable: write {nameless.types[0]} x", nameless.span)
        found: list[SyntaxNode] = []
        for name in same.fields:
            for variable in variables:
                if name not in variable.columns:
                    shared = set.intersection(*(set(v.columns) for v in variables)) - set(Event.__struct_fields__)
                    hint = f"they all have {', '.join(sorted(shared))}" if shared else "write the comparisons one by one"
                    raise QueryError(f"{variable.types} has no field {name}: {hint}", same.span)
            sides = [
                FieldReference(name, v.name, Index.EACH if v.kleene else None, span=same.span)
                for v in variables
                if not v.negated
            ]
            if len(sides) == 1 and sides[0].index is Index.EACH:
                sides.insert(0, FieldReference(name, sides[0].variable, Index.PREVIOUS, span=same.span))
            ends = list(pairwise(sides))
            ends += [(sides[-1], FieldReference(name, v.name, span=same.span)) for v in variables if v.negated]
            pairs = [Binary("=", left, right, span=same.span) for left, right in ends]
            for pair in pairs:
                self._check_equality(pair)
            found += pairs
        return found

    def _check_equality(self, term: SyntaxNode) -> None:
        """Refuse sure mistakes: ``s.id = c.id``, as no two events share an identity; ``s.x = NULL``, as nothing equals it."""
        match term:
            case Binary("=", FieldReference("id", one), FieldReference("id", other)) if one != other:
                variable = self.variables.get(one or "")
                fields = own_fields(self.kinds[variable.slot][0]) if variable is not None else ()
                hint = f": name the field that says what it is about: {', '.join(fields)}" if fields else ""
                raise QueryError(f"id is the number of the event itself at its source, never shared{hint}", term.span)
            case Binary("=" | "<>", Literal(None), _) | Binary("=" | "<>", _, Literal(None)):
                raise QueryError("nothing equals NULL, not even NULL: write IS NULL, or IS NOT NULL", term.span)

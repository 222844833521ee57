"""The equalities of a query: classes of equal fields, the partitions they make, and further equalities they imply.

``s.tag = c.tag AND c.tag = e.tag`` makes one class of three fields, so that ``s.tag = e.tag`` follows, whether or not ``c``
is negated. A class with a field of every positive component partitions the stream: only events of one partition can match.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

from detectors.language.tree import Binary, SyntaxNode
from detectors.language.value_types import Type
from detectors.sequence.grammar.syntax import FieldReference, Index, QueryTree, Strategy
from detectors.sequence.planning.sequence_expressions import PatternVariable

_Place = tuple[int, str]
"""A slot and a field."""


class Equalities:
    """The classes of equal fields of one query.

    ``implied``
        equalities between positive components that follow from others and are not ensured by a partition.
    """

    def __init__(self, conjuncts: list[SyntaxNode], variables: Mapping[str, PatternVariable], query: QueryTree) -> None:
        self._variables = variables
        self._positive = [slot for slot, component in enumerate(query.components) if not component.negated]
        needed = range(len(query.components)) if query.strategy is Strategy.STRICT else self._positive
        self._is_any = query.strategy is Strategy.ANY
        self._same: set[_Place] = set()  # fields that are equal in all events of a Kleene component
        classes = self._classes(conjuncts)
        self._keys: list[dict[int, str]] = []
        self.implied: list[SyntaxNode] = []
        lone = self._positive[0] if len(self._positive) == 1 and query.components[self._positive[0]].kleene else None
        for fields in classes:
            by_slot: dict[int, str] = {}
            for slot, name in fields:
                by_slot.setdefault(slot, name)
            is_key = by_slot.keys() >= set(needed) and all(self._hashable(node) for node in fields)
            if is_key and lone is not None:
                is_key = (lone, by_slot[lone]) in self._same  # else the events of its only group need not be equal
            if is_key:
                self._keys.append(by_slot)
            self.implied += self._following(fields, by_slot, is_key)

    def key(self, slot: int) -> tuple[str, ...] | None:
        """The fields that place a component's events in a partition; None if it does not have them all."""
        if any(slot not in fields for fields in self._keys):
            return None
        return tuple(fields[slot] for fields in self._keys)

    def is_kept_by_key(self, test: SyntaxNode) -> bool:
        """Whether partitions ensure an equality, so that it need not be checked."""
        sides = self._sides(test)
        if sides is None:
            return False
        (one, first), (other, second) = sides
        keyed = self.key(one) is not None and self.key(other) is not None
        return keyed and any(fields.get(one) == first and fields.get(other) == second for fields in self._keys)

    def _sides(self, test: SyntaxNode) -> tuple[_Place, _Place] | None:
        """The two fields of an equality that holds for every event of two components; else None."""
        match test:
            case Binary("=", FieldReference() as left, FieldReference() as right):
                one, other = self._node(left), self._node(right)
                if one is not None and other is not None and one[0] != other[0]:
                    return one, other
        return None

    def _node(self, field: FieldReference) -> _Place | None:
        variable = self._variables.get(field.variable)
        if variable is None or field.index is not (Index.EACH if variable.kleene else None):
            return None
        return (variable.slot, field.name) if field.name in variable.columns else None

    def _hashable(self, node: _Place) -> bool:
        variable = next(v for v in self._variables.values() if v.slot == node[0])
        return variable.columns[node[1]].kind.type is not Type.ANY

    def _classes(self, conjuncts: list[SyntaxNode]) -> list[list[_Place]]:
        """The classes of fields that are declared equal, in the order of declaration. O(conjuncts * fields)."""
        classes: list[list[_Place]] = []
        for conjunct in conjuncts:
            sides = self._sides(conjunct) or self._uniform(conjunct)
            if sides is not None:
                touched = [fields for fields in classes if sides[0] in fields or sides[1] in fields]
                merged = list(dict.fromkeys([node for fields in touched for node in fields] + list(sides)))
                classes = [fields for fields in classes if fields not in touched] + [merged]
        return classes

    def _uniform(self, test: SyntaxNode) -> tuple[_Place, _Place] | None:
        """The field that ``a[i].x = a[i-1].x`` makes equal in all events of a Kleene component."""
        match test:
            case Binary("=", FieldReference(name, one) as left, FieldReference(again, other) as right) if (one, name) == (
                other,
                again,
            ):
                node = self._node(left) or self._node(right)
                if node is not None and {left.index, right.index} == {Index.EACH, Index.PREVIOUS}:
                    self._same.add(node)
                    return node, node
        return None

    def _following(self, fields: list[_Place], by_slot: dict[int, str], is_key: bool) -> list[SyntaxNode]:
        """Equalities of positive components that follow through a negated one and are not ensured by a key.

        For strategies that take the first fitting event, all implied equalities: each event must fit those before it.
        """
        positive = sorted(node for node in fields if node[0] in self._positive)
        if len(positive) == len(fields) and self._is_any:
            return []
        first = [node for node in positive if by_slot[node[0]] == node[1]]
        pairs = [] if is_key else list(pairwise(first))
        pairs += [((slot, by_slot[slot]), (slot, name)) for slot, name in positive if by_slot[slot] != name]
        groups = [] if is_key or self._is_any or len(first) < 2 else [each for each in map(self._field, first) if each.index]
        equal: list[SyntaxNode] = [Binary("=", self._field(one), self._field(other)) for one, other in pairs]
        return equal + [Binary("=", FieldReference(each.name, each.variable, Index.PREVIOUS), each) for each in groups]

    def _field(self, node: _Place) -> FieldReference:
        variable = next(v for v in self._variables.values() if v.slot == node[0])
        return FieldReference(node[1], variable.name, Index.EACH if variable.kleene else None)

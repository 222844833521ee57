"""From trees to code: resolves names and types, adds conversions, and compiles three-valued logic away where possible."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import NoReturn, Protocol

from detectors.language import patterns, tree, values
from detectors.language.code import Code, CodeFrame, constant_value, converted, literal
from detectors.language.conversions import caster
from detectors.language.expression import (
    Arithmetic,
    Comparison,
    Conditional,
    Conjunction,
    ConstantValue,
    Disjunction,
    Expression,
    FunctionCall,
    Membership,
    Negation,
    NullTest,
    Parenthesis,
    SignedValue,
    ValueTuple,
)
from detectors.language.expression_builder import check_depth
from detectors.language.functions import FUNCTIONS, KNOWN, NUMBER, SAME, SYNONYMS, Function
from detectors.language.query_errors import QueryError, TextSpan, nearest
from detectors.language.tree import SyntaxNode
from detectors.language.value_types import INTEGERS, LIMITS, NAMES, NUMBERS, REALS, Type, ValueKind, common, converts
from middleware.model.words import listed


class Scope(Protocol):
    """The meaning of names at the place of an expression."""

    def attribute(self, name: tree.Name) -> Code:
        """The code of an attribute. Raises QueryError if there is none of that name."""

    def call(self, call: tree.Call) -> Code | None:
        """The code of a call that means something only here (an aggregate), or None."""


class Attributes:
    """The simplest scope: attributes of one kind of event, by case-insensitive name, and no functions of its own."""

    def __init__(self, codes: Mapping[str, Code], what: str = "the stream") -> None:
        self._codes = {name.lower(): code for name, code in codes.items()}
        self._names = list(codes)
        self._what = what

    def attribute(self, name: tree.Name) -> Code:
        code = self._codes.get(name.name.lower())
        if code is None:
            known = f"{self._what} has {listed(self._names)}"
            raise QueryError(f"unknown attribute {name.name!r}{nearest(name.name, self._names)} ({known})", name.span)
        return code

    def call(self, call: tree.Call) -> Code | None:
        return None


def analyse(node: SyntaxNode, scope: Scope, frame: CodeFrame) -> Code:
    """The code of an expression. Raises QueryError if it has no meaning."""
    check_depth(node)
    return Analysis(scope, frame).visit(node)


def condition(node: SyntaxNode, scope: Scope, frame: CodeFrame, what: str = "WHERE") -> Code:
    """The code of an expression that must be a Boolean."""
    code = analyse(node, scope, frame)
    if code.type not in (Type.BOOLEAN, Type.NULL):
        raise QueryError(f"{what} needs a condition, and this is a {code.type}: compare it with something", node.span)
    return code


class Analysis:
    """Visits an expression bottom-up."""

    def __init__(self, scope: Scope, frame: CodeFrame) -> None:
        self.scope = scope
        self.frame = frame
        frame.globals.update(_HELPERS)

    def visit(self, node: SyntaxNode) -> Code:  # noqa: PLR0912
        """The code of an expression."""
        match node:
            case tree.Literal(value, kind):
                if kind in INTEGERS and value == LIMITS[Type.LONG]:  # only behind a minus
                    raise QueryError("this number is too large for a Long (64 bits)", node.span)
                return literal(self.frame, value, kind)
            case tree.Name():
                return self.scope.attribute(node)
            case tree.Unary():
                return self._unary(node)
            case tree.Binary("=" | "<>" | "<" | "<=" | ">" | ">="):
                return self._comparison(node.operator, node.left, node.right, node.span)
            case tree.Binary("||"):
                return self._concatenation(node)
            case tree.Binary():
                return self._arithmetic(node)
            case tree.Junction():
                return self._junction(node.operator, [self._boolean(each, node.operator) for each in node.operands])
            case tree.Between(operand, low, high, negated):
                both = [self._comparison(">=", operand, low, node.span), self._comparison("<=", operand, high, node.span)]
                return self._maybe_not(self._junction("AND", both), negated)
            case tree.In():
                return self._maybe_not(self._in(node), node.negated)
            case tree.TextMatch():
                return self._maybe_not(self._match(node), node.negated)
            case tree.IsNull(operand, negated):
                code = self.frame.sealed(self.visit(operand))
                test = Parenthesis(NullTest(code.value, negated))
                return Code(test, ValueKind(Type.BOOLEAN), constant=code.constant)
            case tree.Call():
                return self._call(node)
            case tree.Cast(operand, target):
                return self._cast(self.visit(operand), target, node.span)
            case tree.Case():
                return self._case(node)
        raise QueryError(f"{node} cannot stand here", node.span)

    def _boolean(self, node: SyntaxNode, operator: str) -> Code:
        return condition(node, self.scope, self.frame, operator)

    # logic: NOT swaps true and false; AND is true if all are true, and false if one is false

    def _maybe_not(self, code: Code, negated: bool) -> Code:
        if not negated:
            return code
        value = self.frame.strict([code], Negation)
        return Code(value, ValueKind(Type.BOOLEAN, code.nullable), code.fails, code.holds, code.constant)

    def _junction(self, operator: str, codes: list[Code]) -> Code:
        joins: tuple[type[Conjunction | Disjunction], ...] = (Conjunction, Disjunction)
        join, opposite = joins if operator == "AND" else reversed(joins)
        helper = "both" if operator == "AND" else "either"
        nullable = any(code.nullable for code in codes)
        value = codes[0].value
        for code in codes[1:]:
            both = [value, code.value]
            value = FunctionCall(helper, both) if nullable else Parenthesis(join(both))
        true = Parenthesis(join([code.holds for code in codes]))
        false = Parenthesis(opposite([code.fails for code in codes]))
        return Code(value, ValueKind(Type.BOOLEAN, nullable), true, false, all(code.constant for code in codes))

    def _comparison(self, operator: str, one: SyntaxNode, other: SyntaxNode, span: TextSpan) -> Code:
        codes = [self.frame.sealed(self.visit(each)) for each in (one, other)]
        left, right = self._alike(codes[0], one, codes[1], other, span, operator)
        if left.type is Type.BOOLEAN and operator not in ("=", "<>"):
            raise QueryError(f"Booleans have no order: {operator} cannot compare them; use = or <>", span)
        kind = ValueKind(Type.BOOLEAN, left.nullable or right.nullable)
        test = partial(Comparison, operator)
        value = self.frame.strict([left, right], test)
        true = self.frame.strict_test([left, right], test)
        false = self.frame.strict_test([left, right], lambda a, b: Negation(test(a, b)))
        return Code(value, kind, true, false, left.constant and right.constant)

    def _alike(
        self, one: Code, at: SyntaxNode, other: Code, at_other: SyntaxNode, span: TextSpan, what: str
    ) -> tuple[Code, Code]:
        """Both converted to their common type."""
        if isinstance(at, tree.Literal):  # literals first: they may take the other's type
            one = self._adapted(one, at, other.type)
            other = self._adapted(other, at_other, one.type)
        else:
            other = self._adapted(other, at_other, one.type)
            one = self._adapted(one, at, other.type)
        if Type.ANY in (one.type, other.type):
            return _as_values(one), _as_values(other)
        target = common(one.type, other.type)
        if target is None:
            raise QueryError(f"{what} cannot bring {one.type} and {other.type} together: CAST one of them", span)
        if {one.type, other.type} <= NUMBERS:  # Python compares numbers of any kind
            return _as_real(one, at, other.type), _as_real(other, at_other, one.type)
        return converted(self.frame, one, target), converted(self.frame, other, target)

    def _adapted(self, code: Code, node: SyntaxNode, target: Type) -> Code:
        """A literal text becomes a Char or a Datetime where one is needed; a Char becomes a String of one character."""
        if code.type is Type.CHAR and target is Type.STRING:
            return Code(code.value, ValueKind(Type.STRING, code.nullable), constant=code.constant)
        if not isinstance(node, tree.Literal) or not isinstance(node.value, str):
            return code
        if target is Type.CHAR and len(node.value) == 1:
            return Code(code.value, ValueKind(Type.CHAR), constant=True)
        if target is Type.DATETIME:
            seconds = values.to_datetime(node.value)
            if seconds is None:
                raise QueryError(f"{node.value!r} is no Datetime: write 'YYYY-MM-DD HH:MM:SS'", node.span)
            return literal(self.frame, seconds, Type.DATETIME)
        return code

    # numbers and texts

    def _unary(self, node: tree.Unary) -> Code:
        if node.operator == "NOT":
            return self._maybe_not(self._boolean(node.operand, "NOT"), True)
        if node.operator == "-" and isinstance(node.operand, tree.Literal) and node.operand.type in NUMBERS:
            return literal(self.frame, -node.operand.value, node.operand.type)  # type: ignore[operator]
        code = self._number(self.visit(node.operand), node.operator, node.operand.span, node.operator == "~")
        value = self.frame.strict([code], partial(SignedValue, node.operator))
        most = 0 if code.type not in INTEGERS or (node.operator == "~" and not code.is_loose) else code.magnitude
        return Code(value, code.kind, constant=code.constant, most=most)

    def _number(self, code: Code, operator: str, span: TextSpan, is_bitwise: bool) -> Code:
        if code.type is Type.CHAR:
            code = converted(self.frame, code, Type.INT)
        if code.type is Type.NULL:
            return Code(code.value, ValueKind(Type.INT, True), constant=True)
        if code.type not in (INTEGERS if is_bitwise else NUMBERS):
            what = "whole numbers" if is_bitwise else "numbers"
            hint = "|| joins texts" if operator == "+" and code.type is Type.STRING else "CAST it"
            raise QueryError(f"{operator} works on {what}, and this is a {code.type}: {hint}", span)
        return code

    def _arithmetic(self, node: tree.Binary) -> Code:
        operator = node.operator
        is_bitwise = operator in ("&", "|", "^", "<<", ">>")
        left = self._number(self.visit(node.left), operator, node.left.span, is_bitwise)
        right = self._number(self.visit(node.right), operator, node.right.span, is_bitwise)
        wider = common(left.type, right.type) or Type.DOUBLE
        target = wider if wider is Type.LONG else Type.INT if wider in INTEGERS else Type.DOUBLE
        if target is Type.DOUBLE:  # one of the two is a float, so Python brings the other to it
            left, right = self.frame.sealed(left), self.frame.sealed(right)
        most = 0 if target is Type.DOUBLE else _most(operator, left, right, LIMITS[target])
        left, right = (Code(c.value, ValueKind(target, c.nullable), constant=c.constant) for c in (left, right))
        nullable, constant = left.nullable or right.nullable, left.constant and right.constant
        helper = _HELPED.get((operator, target is Type.DOUBLE))
        if helper is not None:
            value = self.frame.strict([left, right], _call(helper))
            return Code(value, ValueKind(target, True), constant=constant, most=most)
        value = self.frame.strict([left, right], partial(Arithmetic, operator))
        return Code(value, ValueKind(target, nullable), constant=constant, most=most)

    def _concatenation(self, node: tree.Binary) -> Code:
        parts = [self._text(self.visit(each), each) for each in (node.left, node.right)]
        value = self.frame.strict(parts, partial(Arithmetic, "+"))
        return Code(value, ValueKind(Type.STRING, any(p.nullable for p in parts)), constant=all(p.constant for p in parts))

    def _text(self, code: Code, node: SyntaxNode) -> Code:
        return self._argument(code, node, Type.STRING, "||")

    # IN, LIKE, REGEX

    def _in(self, node: tree.In) -> Code:
        operand = self.frame.sealed(self.visit(node.operand))
        others = [self.frame.sealed(self.visit(item)) for item in node.items]
        items = [
            self._alike(operand, node.operand, other, item, node.span, "IN")
            for other, item in zip(others, node.items, strict=True)
        ]
        if len({one.type for one, _ in items}) > 1 or operand.type is Type.ANY:  # a Char among texts and numbers
            return self._junction("OR", [self._comparison("=", node.operand, item, node.span) for item in node.items])
        operand = items[0][0]
        codes = [other for _, other in items]
        nullable = operand.nullable or any(code.nullable for code in codes)
        may_be_nan = operand.type in REALS
        if all(code.constant for code in codes):
            known = tuple(constant_value(self.frame, code) for code in codes)
            values = known if None in known else frozenset(known)
            among: Expression = ConstantValue(self.frame.constant(values), values)
            may_be_nan = may_be_nan and any(value != value for value in known)  # noqa: PLR0124 (NaN)
        else:
            among = ValueTuple([code.value for code in codes])
        if nullable or may_be_nan:
            return Code(FunctionCall("is_in", [operand.value, among]), ValueKind(Type.BOOLEAN, nullable))
        is_in, is_not = (Parenthesis(Membership(operand.value, among, negated)) for negated in (False, True))
        return Code(is_in, ValueKind(Type.BOOLEAN), false=is_not)

    def _match(self, node: tree.TextMatch) -> Code:
        text = self._argument(self.visit(node.operand), node.operand, Type.STRING, node.operator)
        pattern = self._argument(self.visit(node.pattern), node.pattern, Type.STRING, node.operator)
        if isinstance(node.pattern, tree.Literal) and isinstance(node.pattern.value, str):
            name = self.frame.constant(self._compiled(node.operator, node.pattern.value, node.pattern.span))
            value = self.frame.strict([text], _call(name))
            return Code(value, ValueKind(Type.BOOLEAN, text.nullable))
        helper = "matches_like" if node.operator == "LIKE" else "matches_regex"
        value = self.frame.strict([text, pattern], _call(helper))
        return Code(value, ValueKind(Type.BOOLEAN, True))  # a pattern that comes with the data may be invalid

    @staticmethod
    def _compiled(operator: str, pattern: str, span: TextSpan) -> patterns.Matches:
        if operator == "LIKE":
            return patterns.like(pattern)
        try:
            return patterns.regex(pattern)
        except patterns.PatternError as error:
            raise QueryError(
                f"this is no regular expression: {error}; the syntax is RE2's, which has no back-references and no look-around",
                span,
            ) from None

    # functions, conversions, CASE

    def _call(self, node: tree.Call) -> Code:
        own = self.scope.call(node)
        if own is not None:
            return own
        name = SYNONYMS.get(node.name, node.name)
        if name.startswith("to_") and name[3:] in NAMES and len(node.arguments) == 1:
            return self._cast(self.visit(node.arguments[0]), NAMES[name[3:]], node.span)
        function = FUNCTIONS.get(name)
        if function is None or node.is_star:
            raise QueryError(f"unknown function {node.name!r}{nearest(node.name, KNOWN)}", node.span)
        arguments = self._arguments(node, function)
        result = self._result(function, arguments)
        called = self.frame.constant(function.call)
        if function.is_lenient:
            value: Expression = FunctionCall(called, [code.value for code in arguments])
            return Code(value, ValueKind(result, function.is_partial or all(code.nullable for code in arguments)))
        value = self.frame.strict(arguments, _call(called))
        nullable = function.is_partial or any(code.nullable for code in arguments)
        return Code(
            value, ValueKind(result, nullable), most=arguments[0].magnitude if name == "abs" and result in INTEGERS else 0
        )

    def _arguments(self, node: tree.Call, function: Function) -> list[Code]:
        parameters = list(function.parameters)
        count, least = len(node.arguments), len(parameters) - function.optional
        if function.is_variadic:
            parameters += parameters[-1:] * (count - len(parameters))
        if not least <= count <= len(parameters):
            expected = f"{least} or more" if function.is_variadic else " or ".join({str(least), str(len(parameters))})
            raise QueryError(f"{node.name} takes {expected} arguments, not {count}", node.span)
        codes = [self.visit(argument) for argument in node.arguments]
        shared: Type | None = Type.NULL
        for code, parameter in zip(codes, parameters, strict=False):
            if parameter == SAME:
                shared = common(shared, code.type) if shared else None
        if shared is None:
            types = listed(str(code.type) for code in codes)
            raise QueryError(f"the arguments of {node.name} must be of one type, not {types}: CAST them", node.span)
        made = []
        for code, argument, parameter in zip(codes, node.arguments, parameters, strict=False):
            if parameter == NUMBER:
                made.append(self.frame.sealed(self._number(code, node.name, argument.span, False)))
            else:
                target = shared if parameter == SAME else parameter
                made.append(self._argument(code, argument, Type(target), node.name))
        return made

    def _argument(self, code: Code, node: SyntaxNode, target: Type, what: str) -> Code:
        code = self._adapted(code, node, target)
        if not converts(code.type, target):
            fits = isinstance(node, tree.Literal) and code.type in INTEGERS and target in INTEGERS
            if not fits:
                raise QueryError(f"{what} needs a {target} here, and this is a {code.type}: CAST it", node.span)
        return self.frame.sealed(converted(self.frame, code, target))

    @staticmethod
    def _result(function: Function, arguments: list[Code]) -> Type:
        if function.result in (NUMBER, SAME):
            return next(code.type for code, p in zip(arguments, function.parameters, strict=False) if p == function.result)
        return Type(function.result)

    def _cast(self, code: Code, target: Type, span: TextSpan) -> Code:
        code = self.frame.sealed(code)
        if code.type is target:
            return code
        convert = caster(code.type, target)
        if convert is None:
            raise QueryError(f"there is no conversion from {code.type} to {target}", span)
        name = self.frame.constant(convert)
        return Code(self.frame.strict([code], _call(name)), ValueKind(target, True))

    def _case(self, node: tree.Case) -> Code:
        tests = [self._boolean(test, "WHEN") for test, _ in node.branches]
        nodes = [value for _, value in node.branches] + ([node.otherwise] if node.otherwise is not None else [])
        codes = [self.frame.sealed(self.visit(each)) for each in nodes]
        if node.otherwise is None:
            codes.append(literal(self.frame, None, Type.NULL))
            nodes.append(node)
        shared: Type | None = Type.NULL
        for code in codes:
            shared = common(shared, code.type) if shared else None
        if shared is None:
            self._no_common(codes, node.span)
        codes = [converted(self.frame, code, shared) for code in codes]
        value = codes[-1].value
        for test, code in zip(reversed(tests), reversed(codes[:-1]), strict=True):
            value = Parenthesis(Conditional(test.holds, code.value, value))
        return Code(value, ValueKind(shared, any(code.nullable for code in codes)))

    @staticmethod
    def _no_common(codes: list[Code], span: TextSpan) -> NoReturn:
        raise QueryError(f"the values of CASE must be of one type, not {listed(str(c.type) for c in codes)}: CAST them", span)


def _call(name: str) -> Callable[..., Expression]:
    """The builder of a call of that function."""
    return lambda *arguments: FunctionCall(name, arguments)


def _as_values(code: Code) -> Code:
    """The value of an enum's member, or the value itself."""
    if code.type is not Type.ANY:
        return code
    return Code(FunctionCall("enum_value", [code.value]), code.kind, constant=code.constant)


def _as_real(code: Code, node: SyntaxNode, other: Type) -> Code:
    """Writes a whole number as a float if it is compared with one: Python compares two floats faster, with the same result."""
    value = node.value if isinstance(node, tree.Literal) else None
    if other not in (Type.FLOAT, Type.DOUBLE) or type(value) is not int or abs(value) > 2**53:
        return code
    return Code(ConstantValue(repr(float(value)), float(value)), code.kind, constant=True)


def _most(operator: str, left: Code, right: Code, limit: int) -> int:
    """The largest magnitude that whole-number arithmetic can give; ``limit`` is that of its type."""
    match operator:
        case "+" | "-":
            return left.magnitude + right.magnitude
        case "*":
            return left.magnitude * right.magnitude
        case "/":
            return left.magnitude
        case "%":
            return min(left.magnitude, right.magnitude - 1)
        case "<<":
            return limit << 63
    return limit if left.is_loose or right.is_loose else 0  # bits of both, or of one


def _left_shift(value: int, count: int) -> int:
    return value << (count & 63)


def _right_shift(value: int, count: int) -> int:
    return value >> (count & 63)


_HELPERS: dict[str, object] = {
    **{each.__name__: each for each in (values.both, values.either, values.is_in)},
    **{each.__name__: each for each in (patterns.matches_like, patterns.matches_regex)},
    **{each.__name__: each for each in (values.integer_quotient, values.integer_rest, values.quotient, values.rest)},
    "left_shift": _left_shift,
    "right_shift": _right_shift,
}
_HELPED = {
    ("/", False): "integer_quotient",
    ("/", True): "quotient",
    ("%", False): "integer_rest",
    ("%", True): "rest",
    ("<<", False): "left_shift",
    (">>", False): "right_shift",
}

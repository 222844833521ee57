"""Turns grammar matches into expression trees, and mismatches into helpful errors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, NoReturn

from lark import Lark, Token, v_args
from lark.exceptions import UnexpectedCharacters, UnexpectedInput, UnexpectedToken, VisitError
from lark.visitors import Transformer_NonRecursive

from detectors.language import tree
from detectors.language.query_errors import QueryError, TextSpan, nearest
from detectors.language.tree import SyntaxNode
from detectors.language.value_types import NAMES, Type
from middleware.model.words import listed

DEEPEST = 50
"""How deep an expression may be nested. Python's own compiler sets this limit."""

_LONGEST_NUMBER = 40

_WORDS = {
    "NAME": "a name", "INTEGER": "a whole number", "DECIMAL": "a number", "STRING": "a text in quotes", "$END": "the end",
    "LPAR": "(", "RPAR": ")", "COMMA": ",", "DOT": ".", "LSQB": "[", "RSQB": "]", "SEMICOLON": ";", "PLUS": "+", "MINUS": "-",
    "STAR": "*", "TILDE": "~", "COMPARISON": "a comparison", "CONCAT": "||", "PRODUCT_OPERATOR": "/",
    "BIT_OPERATOR": "a bitwise operator", "SHIFT_OPERATOR": "<<",
}  # fmt: skip


def span_of(*items: object) -> TextSpan:
    """The span from the first to the last of the tokens and nodes among ``items``."""
    spans = [_span(item) for item in items if isinstance(item, Token | SyntaxNode)]
    return TextSpan(spans[0].start, spans[-1].end) if spans else TextSpan(0, 0)


def _span(item: Token | SyntaxNode) -> TextSpan:
    if isinstance(item, Token):
        start = item.start_pos or 0
        return TextSpan(start, start + len(item))
    return item.span


def plain(name: Token) -> str:
    """A name without the backticks that let it be a reserved word."""
    return str(name).strip("`")


@v_args(inline=True)
class ExpressionBuilder(Transformer_NonRecursive[Token, object]):
    """One method per rule of ``grammar.lark``; query languages add methods for their own rules."""

    def comparison(self, left: SyntaxNode, operator: Token, right: SyntaxNode) -> SyntaxNode:
        written = {"==": "=", "!=": "<>"}.get(operator, str(operator))
        return tree.Binary(written, left, right, span=span_of(left, right))

    def binary(self, left: SyntaxNode, operator: Token, right: SyntaxNode) -> SyntaxNode:
        return tree.Binary(str(operator), left, right, span=span_of(left, right))

    def sign(self, sign: Token, operand: SyntaxNode) -> SyntaxNode:
        return tree.Unary(str(sign), operand, span=span_of(sign, operand))

    def negation(self, word: Token, operand: SyntaxNode) -> SyntaxNode:
        return tree.Unary("NOT", operand, span=span_of(word, operand))

    def conjunction(self, *operands: SyntaxNode) -> SyntaxNode:
        return tree.Junction("AND", operands, span=span_of(*operands))

    def disjunction(self, *operands: SyntaxNode) -> SyntaxNode:
        return tree.Junction("OR", operands, span=span_of(*operands))

    def is_in(self, operand: SyntaxNode, negated: Token | None, *items: SyntaxNode) -> SyntaxNode:
        return tree.In(operand, items, negated is not None, span=span_of(operand, items[-1]))

    def between(self, operand: SyntaxNode, negated: Token | None, low: SyntaxNode, high: SyntaxNode) -> SyntaxNode:
        return tree.Between(operand, low, high, negated is not None, span=span_of(operand, high))

    def match(self, operand: SyntaxNode, negated: Token | None, operator: Token, pattern: SyntaxNode) -> SyntaxNode:
        return tree.TextMatch(str(operator).upper(), operand, pattern, negated is not None, span=span_of(operand, pattern))

    def is_null(self, operand: SyntaxNode, negated: Token | None, last: Token) -> SyntaxNode:
        return tree.IsNull(operand, negated is not None, span=span_of(operand, last))

    def name(self, name: Token) -> SyntaxNode:
        return tree.Name(plain(name), span=span_of(name))

    def qualified(self, qualifier: Token, name: Token) -> SyntaxNode:
        return tree.Name(plain(name), plain(qualifier), span=span_of(qualifier, name))

    def call(self, name: Token, *arguments: SyntaxNode | None) -> SyntaxNode:
        return tree.Call(plain(name).lower(), tuple(each for each in arguments if each is not None), span=span_of(name))

    def call_star(self, name: Token, star: Token) -> SyntaxNode:
        return tree.Call(plain(name).lower(), (), True, span=span_of(name))

    def cast(self, value: SyntaxNode, kind: Token) -> SyntaxNode:
        return tree.Cast(value, type_named(kind), span=span_of(value, kind))

    def case(self, *parts: tuple[SyntaxNode, SyntaxNode] | SyntaxNode | None) -> SyntaxNode:
        branches = tuple(part for part in parts if isinstance(part, tuple))
        otherwise = parts[-1] if isinstance(parts[-1], SyntaxNode) else None
        return tree.Case(branches, otherwise, span=span_of(branches[0][0], branches[-1][1], otherwise))

    def branch(self, condition: SyntaxNode, value: SyntaxNode) -> tuple[SyntaxNode, SyntaxNode]:
        return condition, value

    def nested(self, inner: SyntaxNode) -> SyntaxNode:
        return inner

    def integer(self, number: Token) -> SyntaxNode:
        value = whole_number(number)
        return tree.Literal(value, Type.INT if value < 2**31 else Type.LONG, span=span_of(number))

    def decimal(self, number: Token) -> SyntaxNode:
        value = float(number)
        if value == float("inf"):
            raise QueryError("this number is too large for a Double", span_of(number))
        return tree.Literal(value, Type.DOUBLE, span=span_of(number))

    def string(self, text: Token) -> SyntaxNode:
        return tree.Literal(text_of(text), Type.STRING, span=span_of(text))

    def true(self, word: Token) -> SyntaxNode:
        return tree.Literal(True, Type.BOOLEAN, span=span_of(word))

    def false(self, word: Token) -> SyntaxNode:
        return tree.Literal(False, Type.BOOLEAN, span=span_of(word))

    def null(self, word: Token) -> SyntaxNode:
        return tree.Literal(None, Type.NULL, span=span_of(word))


def whole_number(token: Token) -> int:
    """A number as written. Raises QueryError if no 64-bit integer holds it, nor its negative, which is looked at later."""
    if len(token) > _LONGEST_NUMBER or int(token) > 2**63:
        raise QueryError("this number is too large for a Long (64 bits)", span_of(token))
    return int(token)


def text_of(token: Token) -> str:
    """A text without its quotes; a doubled quote stands for one."""
    quote = token[0]
    return str(token[1:-1]).replace(quote * 2, quote)


def type_named(token: Token) -> Type:
    """The type with this name. Raises QueryError if there is none."""
    found = NAMES.get(plain(token).lower())
    if found is None:
        known = [str(each) for each in dict.fromkeys(NAMES.values())]
        hint = nearest(plain(token), known)
        raise QueryError(f"unknown type {plain(token)!r}{hint} (types: {', '.join(known)})", span_of(token))
    return found


def parse_text(parser: Lark, builder: ExpressionBuilder, text: str, words: Mapping[str, str] = MappingProxyType({})) -> Any:
    """Return the result of ``builder`` on the tree of ``text``. Raises QueryError with line, column, caret and what was
    expected.

    ``words``: how errors describe terminals that only this parser has.
    """
    try:
        return builder.transform(parser.parse(text))
    except UnexpectedInput as error:
        _refuse(error, text, words)
    except VisitError as error:
        if isinstance(error.orig_exc, QueryError):
            raise error.orig_exc.located(text) from None
        raise


def _refuse(error: UnexpectedInput, text: str, known: Mapping[str, str]) -> NoReturn:
    start = error.pos_in_stream if error.pos_in_stream is not None and error.pos_in_stream >= 0 else len(text.rstrip())
    expected: Iterable[str] = ()
    found = "the end"
    width = 1
    if isinstance(error, UnexpectedToken):
        expected = error.accepts or error.expected
        token = error.token
        if token.type == "$END":
            start = len(text.rstrip())
        else:
            found, width = repr(str(token)), len(token)
    elif isinstance(error, UnexpectedCharacters):
        expected = error.allowed or ()
        found = repr(text[start : start + 1])
        if found in ('"\'"', "'\"'"):
            raise QueryError("this text has no end: close it with the same quote", TextSpan(start, len(text))).located(
                text
            ) from None
    words = sorted(
        {known.get(terminal) or _word(terminal) for terminal in expected}, key=lambda word: (not word.isupper(), word)
    )
    keywords = [word for word in words if word.isupper()]
    hint = nearest(found.strip("'\""), keywords) if found != "the end" else ""
    before = text[:start].split()
    if not hint and before and (meant := nearest(before[-1], keywords)):  # "a FORM b": FORM is taken for an alias
        hint = f" after {before[-1]!r}{meant}"
    message = f"unexpected {found}{hint}; expected {listed(words) or 'nothing more'}"
    raise QueryError(message, TextSpan(start, start + width)).located(text) from None


def _word(terminal: str) -> str:
    return _WORDS.get(terminal) or terminal.strip("_").replace("_", " ")


def check_depth(node: SyntaxNode) -> None:
    """Raises QueryError if an expression is nested too deep to be compiled. O(nodes), without recursion."""
    pending = [(node, 1)]
    while pending:
        here, depth = pending.pop()
        if depth > DEEPEST:
            raise QueryError(f"this is nested more than {DEEPEST} deep: name parts of it in a sub-select", here.span)
        pending += [(child, depth + 1) for child in tree.children(here)]

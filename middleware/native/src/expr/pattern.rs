//! Regular expressions of queries, in linear time whatever the pattern: the syntax of RE2 as far as the `regex` crate has it.
//!
//! What both read in different ways is refused, so that no pattern changes its meaning. As in RE2, `\d`, `\s`, `\w` and `\b` are
//! about ASCII, and a part is repeated 1,000 times at most.

use regex::bytes::{Regex, RegexBuilder};
use regex_syntax::ast::{
    self, AssertionKind, Ast, ClassPerl, ClassPerlKind, ClassSetItem, Flag, Flags, FlagsItemKind, GroupKind, RepetitionKind,
    RepetitionRange, Span,
};

/// How often a part of a pattern may be repeated by number.
const MOST_REPEATS: u32 = 1_000;

/// A pattern that takes this many bytes at most, or why there is none.
pub fn compiled(pattern: &str, memory: usize) -> Result<Regex, String> {
    RegexBuilder::new(&in_ascii(pattern)?).size_limit(memory).build().map_err(|error| match error {
        regex::Error::CompiledTooBig(_) => "the pattern is too large".to_owned(),
        other => other.to_string(),
    })
}

/// The pattern with classes and boundaries of ASCII in the place of those of Unicode, or why it is none.
fn in_ascii(pattern: &str) -> Result<String, String> {
    let told = |why: &str, span: &Span| format!("{why}: {}", &pattern[span.start.offset..span.end.offset]);
    let tree = ast::parse::Parser::new().parse(pattern).map_err(|error| told(&error.kind().to_string(), error.span()))?;
    let changes = ast::visit(&tree, Reading::default()).map_err(|(why, span)| told(why, &span))?;
    let mut made = String::with_capacity(pattern.len());
    let mut at = 0;
    for (span, ascii) in changes {
        made.push_str(&pattern[at..span.start.offset]);
        made.push_str(ascii);
        at = span.end.offset;
    }
    made.push_str(&pattern[at..]);
    Ok(made)
}

/// The replacements that a pattern needs, in order. Fails at syntax that RE2 lacks or reads in another way.
#[derive(Default)]
struct Reading(Vec<(Span, &'static str)>);

impl Reading {
    fn perl(&mut self, class: &ClassPerl) {
        let ascii = match (&class.kind, class.negated) {
            (ClassPerlKind::Digit, false) => "[0-9]",
            (ClassPerlKind::Digit, true) => "[^0-9]",
            (ClassPerlKind::Space, false) => r"[\t\n\x0c\r ]",
            (ClassPerlKind::Space, true) => r"[^\t\n\x0c\r ]",
            (ClassPerlKind::Word, false) => "[0-9A-Za-z_]",
            (ClassPerlKind::Word, true) => "[^0-9A-Za-z_]",
        };
        self.0.push((class.span, ascii));
    }
}

impl ast::Visitor for Reading {
    type Output = Vec<(Span, &'static str)>;
    type Err = (&'static str, Span);

    fn finish(self) -> Result<Self::Output, Self::Err> {
        Ok(self.0)
    }

    fn visit_pre(&mut self, node: &Ast) -> Result<(), Self::Err> {
        match node {
            Ast::ClassPerl(class) => self.perl(class),
            Ast::Assertion(assertion) => match assertion.kind {
                AssertionKind::WordBoundary => self.0.push((assertion.span, r"(?-u:\b)")),
                AssertionKind::NotWordBoundary => self.0.push((assertion.span, r"(?-u:\B)")),
                AssertionKind::StartLine | AssertionKind::EndLine | AssertionKind::StartText | AssertionKind::EndText => {}
                _ => return Err(("RE2 has no such boundary", assertion.span)),
            },
            Ast::Flags(set) => known(&set.flags)?,
            Ast::Group(group) => {
                if let GroupKind::NonCapturing(flags) = &group.kind {
                    known(flags)?;
                }
            }
            Ast::Repetition(repetition) => {
                let most = match &repetition.op.kind {
                    RepetitionKind::Range(RepetitionRange::Exactly(n) | RepetitionRange::AtLeast(n)) => *n,
                    RepetitionKind::Range(RepetitionRange::Bounded(_, n)) => *n,
                    _ => 0,
                };
                if most > MOST_REPEATS {
                    return Err(("more than 1,000 repetitions", repetition.op.span));
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn visit_class_set_item_pre(&mut self, item: &ClassSetItem) -> Result<(), Self::Err> {
        match item {
            ClassSetItem::Perl(class) => self.perl(class),
            ClassSetItem::Bracketed(inner) => return Err((r"a [ within brackets is to be written \[", inner.span)),
            _ => {}
        }
        Ok(())
    }

    fn visit_class_set_binary_op_pre(&mut self, operation: &ast::ClassSetBinaryOp) -> Result<(), Self::Err> {
        Err((r"&&, -- and ~~ within brackets are to be written \&&, \-- and \~~", operation.span))
    }
}

/// Fails at a flag that RE2 does not have.
fn known(flags: &Flags) -> Result<(), (&'static str, Span)> {
    for item in &flags.items {
        if let FlagsItemKind::Flag(flag) = item.kind
            && !matches!(flag, Flag::CaseInsensitive | Flag::MultiLine | Flag::DotMatchesNewLine | Flag::SwapGreed)
        {
            return Err(("RE2 has no such flag", item.span));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{compiled, in_ascii};

    #[test]
    fn classes_and_boundaries_are_those_of_ascii() {
        assert_eq!(in_ascii(r"^\d+[\w.\S]\b$").unwrap(), r"^[0-9]+[[0-9A-Za-z_].[^\t\n\x0c\r ]](?-u:\b)$");
        assert_eq!(in_ascii("a+[[:alpha:]é]").unwrap(), "a+[[:alpha:]é]");
    }

    #[test]
    fn what_both_read_in_different_ways_is_refused() {
        for pattern in
            ["[[a]b]", "[a&&b]", "[a--b]", "(?x)a", "(?-u:a)", r"\<a", r"\b{start}", "a{1001}", "(a{2,1001})", r"\Qa\E"]
        {
            assert!(in_ascii(pattern).is_err(), "{pattern}");
        }
    }

    #[test]
    fn a_pattern_is_no_larger_than_it_may_be() {
        assert!(compiled("((a{100}){100}){100}", 8 << 20).is_err());
        assert!(compiled(r"(\w{100}){5}", 8 << 20).is_ok());
    }
}

//! The source of a chat template, rewritten where Jinja2 has syntax that minijinja lacks: transformers'
//! {% generation %}, a plus sign before a value, `varargs` and `kwargs` in macros, and defaults of a macro
//! that name its other arguments. Lines keep their numbers.

use minijinja::machinery::{tokenize, Span, Token};
use minijinja::syntax::SyntaxConfig;
use minijinja::{Error, ErrorKind};

/// Max parts of one tag or expression. The longest one of a published template has about 300.
const MAX_PARTS: usize = 4096;
/// Max `elif` branches of a template; the parser recurses into each.
const MAX_BRANCHES: usize = 1000;
/// Filters of Jinja2 that are not here, and why.
const REFUSED: [(&str, &str); 2] =
    [("random", "a prompt has to be the same each time"), ("urlize", "it makes links for a web page")];

type Tokens<'a> = Vec<(Token<'a>, Span)>;

struct Edit {
    from: usize,
    to: usize,
    text: String,
}

/// The arguments of `{% macro name(a, b=1) %}`.
struct Header<'a> {
    names: Vec<&'a str>,
    defaults: Vec<(&'a str, usize, usize)>, // with the bytes of `=1`
    close: usize,                           // of the parenthesis
    comma: bool,                            // an argument after the last one needs one
    end: (usize, usize),                    // the bytes of `%}`
    refers: bool,                           // a default names an argument
    varargs: bool,
    kwargs: bool,
}

fn refuse<T>(span: &Span, what: &str) -> Result<T, Error> {
    Err(Error::new(ErrorKind::SyntaxError, format!("line {}: {what}", span.start_line)))
}

pub fn rewritten(source: &str, syntax: &SyntaxConfig) -> Result<String, Error> {
    let tokens: Tokens = tokenize(source, false, syntax.clone()).collect::<Result<_, _>>()?;
    check(&tokens)?;
    let mut edits: Vec<Edit> = Vec::new();
    for (at, (token, span)) in tokens.iter().enumerate() {
        let is_keyword = at > 0 && matches!(tokens[at - 1].0, Token::BlockStart);
        let text = match token {
            Token::Ident("generation") if is_keyword => "if true",
            Token::Ident("endgeneration") if is_keyword => "endif",
            Token::Plus if at > 0 && begins_value(&tokens[at - 1].0) => "- -",
            _ => continue,
        };
        let (from, to) = (span.start_offset as usize, span.end_offset as usize);
        edits.push(Edit { from, to, text: text.to_string() });
    }
    for header in headers(&tokens) {
        edit_macro(source, &header, &mut edits);
    }
    edits.sort_by_key(|edit| edit.from);
    let mut out = String::with_capacity(source.len());
    let mut copied = 0;
    for edit in edits.iter().filter(|edit| edit.from <= edit.to) {
        if edit.from < copied {
            continue; // inside a text that has moved
        }
        out.push_str(&source[copied..edit.from]);
        out.push_str(&edit.text);
        copied = edit.to;
    }
    out.push_str(&source[copied..]);
    Ok(out)
}

fn check(tokens: &Tokens) -> Result<(), Error> {
    let (mut parts, mut branches) = (0, 0);
    for (at, (token, span)) in tokens.iter().enumerate() {
        let before = at.checked_sub(1).map(|before| &tokens[before].0);
        if matches!((before, token), (Some(Token::BlockStart), Token::Ident("elif"))) {
            branches += 1;
        }
        if let (Some(Token::Pipe), Token::Ident(name)) = (before, token) {
            if let Some((_, why)) = REFUSED.iter().find(|(refused, _)| refused == name) {
                return refuse(span, &format!("the filter {name} is not supported: {why}"));
            }
        }
        let opens = matches!(token, Token::BlockStart | Token::VariableStart | Token::TemplateData(_));
        parts = if opens { 0 } else { parts + 1 };
        if parts > MAX_PARTS {
            return refuse(span, &format!("an expression has more than {MAX_PARTS} parts"));
        }
        if branches > MAX_BRANCHES {
            return refuse(span, &format!("there are more than {MAX_BRANCHES} elif branches"));
        }
    }
    Ok(())
}

/// A sign after this token belongs to the value that follows.
fn begins_value(before: &Token) -> bool {
    use Token as T;
    match before {
        T::Ident(word) => matches!(*word, "in" | "not" | "and" | "or" | "if" | "elif" | "else"),
        T::VariableStart | T::Plus | T::Minus | T::Mul | T::Div | T::FloorDiv | T::Pow | T::Mod => true,
        T::Comma | T::Colon | T::Tilde | T::Assign | T::Eq | T::Ne | T::Gt | T::Gte | T::Lt | T::Lte => {
            true
        }
        T::BracketOpen | T::ParenOpen | T::BraceOpen => true,
        _ => false,
    }
}

/// All macros, with what their bodies use.
fn headers<'a>(tokens: &Tokens<'a>) -> Vec<Header<'a>> {
    let (mut done, mut open): (Vec<Header>, Vec<Header>) = (Vec::new(), Vec::new());
    let mut at = 0;
    while at < tokens.len() {
        let before = at.checked_sub(1).map(|before| &tokens[before].0);
        let is_keyword = matches!(before, Some(Token::BlockStart));
        match &tokens[at].0 {
            Token::Ident("macro") if is_keyword => {
                if let Some((header, next)) = header_at(tokens, at + 1) {
                    open.push(header);
                    at = next;
                    continue;
                }
            }
            Token::Ident("endmacro") if is_keyword => done.extend(open.pop()),
            Token::Ident(name) if !matches!(before, Some(Token::Dot)) => {
                if let Some(inner) = open.last_mut() {
                    inner.varargs |= *name == "varargs";
                    inner.kwargs |= *name == "kwargs";
                }
            }
            _ => {}
        }
        at += 1;
    }
    done
}

/// The header whose name is at `at`, and the place after it.
fn header_at<'a>(tokens: &Tokens<'a>, at: usize) -> Option<(Header<'a>, usize)> {
    let is_call =
        matches!(tokens.get(at)?.0, Token::Ident(_)) && matches!(tokens.get(at + 1)?.0, Token::ParenOpen);
    if !is_call {
        return None;
    }
    let mut header = Header {
        names: Vec::new(),
        defaults: Vec::new(),
        close: 0,
        comma: false,
        end: (0, 0),
        refers: false,
        varargs: false,
        kwargs: false,
    };
    let (mut depth, mut place, mut default) = (0, at + 2, None);
    loop {
        let (token, span) = tokens.get(place)?;
        let start = span.start_offset as usize;
        let ends = depth == 0 && matches!(token, Token::Comma | Token::ParenClose);
        if let Some(from) = default.filter(|_| ends) {
            header.defaults.push((header.names.last().copied()?, from, start));
            default = None;
        }
        match token {
            Token::ParenClose if depth == 0 => {
                header.close = start;
                header.comma = !matches!(tokens[place - 1].0, Token::Comma | Token::ParenOpen);
                break;
            }
            Token::ParenOpen | Token::BracketOpen | Token::BraceOpen => depth += 1,
            Token::ParenClose | Token::BracketClose | Token::BraceClose => depth -= 1,
            Token::Ident(name) if default.is_none() => header.names.push(name),
            Token::Ident(name) => {
                header.refers |= header.names.contains(name) && !matches!(tokens[place - 1].0, Token::Dot);
            }
            Token::Assign if default.is_none() => default = Some(start),
            _ => {}
        }
        place += 1;
    }
    let (token, span) = tokens.get(place + 1)?;
    if !matches!(token, Token::BlockEnd) {
        return None;
    }
    header.end = (span.start_offset as usize, span.end_offset as usize);
    Some((header, place + 1))
}

fn edit_macro(source: &str, header: &Header, edits: &mut Vec<Edit>) {
    if header.refers {
        let mut sets = String::new();
        for (name, from, to) in &header.defaults {
            edits.push(Edit { from: *from, to: *to, text: String::new() });
            let value = &source[*from..*to];
            sets.push_str(&format!("{{% if {name} is undefined %}}{{% set {name} {value}%}}{{% endif %}}"));
        }
        let (start, end) = header.end;
        let mark = &source[start..end];
        let sets = sets.strip_suffix("%}").map_or(String::new(), |all| format!("{all}{mark}"));
        edits.push(Edit { from: end, to: end, text: sets });
    }
    let more: Vec<&str> = [("varargs", header.varargs), ("kwargs", header.kwargs)]
        .into_iter()
        .filter(|(name, used)| *used && !header.names.contains(name))
        .map(|(name, _)| name)
        .collect();
    if more.is_empty() {
        return;
    }
    let mut text = String::new();
    for (i, name) in more.iter().enumerate() {
        text.push_str(if i > 0 || header.comma { ", " } else { "" });
        text.push_str(&format!("{name}=none"));
    }
    edits.push(Edit { from: header.close, to: header.close, text });
}

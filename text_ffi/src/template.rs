//! A chat template in transformers' environment: Jinja2 with trim_blocks, lstrip_blocks, loop controls,
//! raise_exception, strftime_now, and Python's str and json. Templates are untrusted, so source,
//! instructions, recursion, and output are limited.

use std::fmt;
use std::io;

use minijinja::value::{Kwargs, ValueKind};
use minijinja::{Environment, Error, ErrorKind, State, UndefinedBehavior, Value};
use serde_json::Value as Json;

use crate::memory::with_reserve;
use crate::{python, Code, Failure};

const NAME: &str = "chat template";
/// The variable that passes the clock to strftime_now; templates cannot write this name.
const NOW: &str = "now in s";
/// Stack of a rendering. Fuel alone bounds the nesting of values (`[ns.x]` in a loop), and minijinja drops
/// and compares them recursively. Only touched pages use memory.
const STACK_SIZE: usize = 512 << 20; // bytes
/// Max memory of rendering per byte of variables: JSON, the template's values, and the text.
const RENDER_NEED: usize = 192; // bytes

/// Mirrors ft_text_limits.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Limits {
    pub fuel: u64,
    pub recursion_depth: u64,
    pub template_size: u64,
    pub output_size: u64,
}

pub struct ChatTemplate {
    env: Environment<'static>,
    limits: Limits,
}

/// Marks the error of raise_exception at any depth of macros.
#[derive(Debug)]
struct Raised(String);

impl fmt::Display for Raised {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Raised {}

/// Collects the output up to the limit.
struct Bounded {
    text: Vec<u8>,
    limit: usize, // bytes
}

impl io::Write for &mut Bounded {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        if self.text.len() + data.len() > self.limit {
            return Err(io::Error::other("the output limit"));
        }
        self.text.extend_from_slice(data);
        Ok(data.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl ChatTemplate {
    pub fn compile(source: &str, limits: Limits) -> Result<ChatTemplate, Failure> {
        if source.len() as u64 > limits.template_size {
            let text = format!(
                "the template has {} bytes, more than the limit of {}",
                source.len(),
                limits.template_size
            );
            return Err(Failure::new(Code::Limit, text));
        }
        let mut env = environment();
        env.set_fuel(Some(limits.fuel));
        env.set_recursion_limit(limits.recursion_depth as usize);
        env.add_template_owned(NAME, without_generation_tags(source))
            .map_err(|e| Failure::new(Code::Corrupt, sentence(&e)))?;
        Ok(ChatTemplate { env, limits })
    }

    pub fn render(&self, context: &[u8], now_s: i64) -> Result<Vec<u8>, Failure> {
        std::thread::scope(|scope| {
            let roomy = std::thread::Builder::new().name("chat template".into()).stack_size(STACK_SIZE);
            let render = || {
                with_reserve("the chat", RENDER_NEED, context.len(), || self.render_here(context, now_s))
            };
            let thread = roomy.spawn_scoped(scope, render).map_err(|e| {
                Failure::new(Code::Exhausted, format!("no thread to render on ({e}); free memory"))
            })?;
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    fn render_here(&self, context: &[u8], now_s: i64) -> Result<Vec<u8>, Failure> {
        let invalid = |e: String| Failure::new(Code::Invalid, format!("the template's variables: {e}"));
        let context: Json = serde_json::from_slice(context).map_err(|e| invalid(e.to_string()))?;
        let Json::Object(variables) = context else {
            return Err(invalid("not a JSON object".into()));
        };
        let now = (NOW.to_string(), Value::from(now_s));
        let root = Value::from_pairs(variables.into_iter().map(|(k, v)| (k, value_of(v))).chain([now]));
        let mut out = Bounded { text: Vec::new(), limit: self.limits.output_size as usize };
        let template =
            self.env.get_template(NAME).map_err(|e| Failure::new(Code::Corrupt, sentence(&e)))?;
        let outcome = template.render_captured_to(root, &mut out).map(drop);
        match outcome {
            Ok(()) => Ok(out.text),
            Err(error) => Err(self.failure(&error)),
        }
    }

    fn failure(&self, error: &Error) -> Failure {
        if let Some(raised) = raised_message(error) {
            return Failure::new(Code::Raised, raised);
        }
        let at = error.line().map(|line| format!(" at line {line}")).unwrap_or_default();
        let limit =
            |what: String| Failure::new(Code::Limit, format!("the template was stopped{at}: {what}"));
        match chain_kind(error) {
            ErrorKind::OutOfFuel => limit(format!("more than {} instructions", self.limits.fuel)),
            ErrorKind::WriteFailure => {
                limit(format!("more than {} bytes of output", self.limits.output_size))
            }
            _ if format!("{error:#}").contains("recursion limit") => {
                limit(format!("more than {} calls inside each other", self.limits.recursion_depth))
            }
            _ => Failure::new(Code::Raised, sentence(error)),
        }
    }
}

/// "line 3: undefined value: ..."
fn sentence(error: &Error) -> String {
    let what = match error.detail() {
        Some(detail) => format!("{}: {detail}", error.kind()),
        None => error.kind().to_string(),
    };
    match error.line() {
        Some(line) => format!("line {line}: {what}"),
        None => what,
    }
}

fn causes(error: &Error) -> impl Iterator<Item = &(dyn std::error::Error + 'static)> {
    let first: &(dyn std::error::Error + 'static) = error;
    std::iter::successors(Some(first), |e| e.source())
}

fn raised_message(error: &Error) -> Option<String> {
    causes(error).find_map(|e| e.downcast_ref::<Raised>()).map(|raised| raised.0.clone())
}

fn chain_kind(error: &Error) -> ErrorKind {
    let kinds = causes(error).filter_map(|e| e.downcast_ref::<Error>()).map(Error::kind);
    kinds
        .into_iter()
        .find(|k| matches!(k, ErrorKind::OutOfFuel | ErrorKind::WriteFailure))
        .unwrap_or(error.kind())
}

/// Keeps the insertion order; an integer beyond 64 bits becomes a float, as in serde_json.
fn value_of(json: Json) -> Value {
    match json {
        Json::Null => Value::from(()),
        Json::Bool(b) => Value::from(b),
        Json::Number(n) => match (n.as_i64(), n.as_u64()) {
            (Some(i), _) => Value::from(i),
            (None, Some(u)) => Value::from(u),
            (None, None) => Value::from(n.as_f64().unwrap_or(f64::NAN)),
        },
        Json::String(s) => Value::from(s),
        Json::Array(items) => items.into_iter().map(value_of).collect(),
        Json::Object(items) => Value::from_pairs(items.into_iter().map(|(k, v)| (k, value_of(v)))),
    }
}

fn environment() -> Environment<'static> {
    let mut env = Environment::new();
    let mut syntax = minijinja::syntax::SyntaxConfig::builder();
    syntax.trim_blocks(true).lstrip_blocks(true);
    if let Ok(syntax) = syntax.build() {
        env.set_syntax(syntax);
    }
    env.set_undefined_behavior(UndefinedBehavior::Lenient);
    env.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
    env.set_formatter(|out, _state, value| out.write_str(&python::str_of(value)).map_err(Error::from));
    env.set_unknown_method_callback(method);
    env.add_filter("tojson", tojson);
    env.add_filter("string", |value: &Value| python::str_of(value));
    env.add_filter("trim", |value: &Value, chars: Option<String>| {
        strip(&python::str_of(value), chars.as_deref(), "strip")
    });
    env.add_filter("upper", |value: &Value| python::str_of(value).to_uppercase());
    env.add_filter("lower", |value: &Value| python::str_of(value).to_lowercase());
    env.add_function("raise_exception", raise_exception);
    env.add_function("strftime_now", strftime_now);
    // Jinja2's tests use Python's protocols: a string and a mapping are sequences, a bool is a number.
    env.add_test("sequence", |v: &Value| {
        v.is_undefined() || matches!(v.kind(), ValueKind::String | ValueKind::Seq | ValueKind::Map)
    });
    env.add_test("iterable", |v: &Value| v.kind() == ValueKind::String || v.try_iter().is_ok());
    env.add_test("number", |v: &Value| matches!(v.kind(), ValueKind::Number | ValueKind::Bool));
    env
}

fn raise_exception(message: &Value) -> Result<Value, Error> {
    let text = python::str_of(message);
    Err(Error::new(ErrorKind::InvalidOperation, text.clone()).with_source(Raised(text)))
}

fn strftime_now(state: &State, format: &str) -> Result<String, Error> {
    let now_s = state.lookup(NOW).and_then(|v| v.as_i64()).unwrap_or(0);
    let shown = jiff::Timestamp::from_second(now_s).and_then(|now| jiff::fmt::strtime::format(format, now));
    shown.map_err(|_| {
        Error::new(ErrorKind::InvalidOperation, format!("strftime_now does not know the format {format:?}"))
    })
}

fn tojson(value: &Value, ensure_ascii: Option<bool>, options: Kwargs) -> Result<String, Error> {
    let indent = match options.get::<Option<Value>>("indent")? {
        Some(text) if text.as_str().is_some() => text.as_str().map(str::to_string),
        Some(count) if !count.is_none() => Some(" ".repeat(count.as_usize().unwrap_or(0).min(64))),
        _ => None,
    };
    let separators = match options.get::<Option<Vec<String>>>("separators")?.as_deref() {
        Some([item, key]) => (item.clone(), key.clone()),
        Some(_) => {
            return Err(Error::new(ErrorKind::InvalidOperation, "tojson: separators must be two strings"))
        }
        None => (if indent.is_some() { "," } else { ", " }.to_string(), ": ".to_string()),
    };
    let keyword: Option<bool> = options.get("ensure_ascii")?;
    let style = python::JsonStyle {
        ensure_ascii: keyword.or(ensure_ascii).unwrap_or(false),
        indent,
        separators,
        sort_keys: options.get::<Option<bool>>("sort_keys")?.unwrap_or(false),
    };
    options.assert_all_used()?;
    python::to_json(value, &style)
}

fn strip(text: &str, chars: Option<&str>, which: &str) -> String {
    let set: Option<Vec<char>> = chars.map(|c| c.chars().collect());
    let gone = |c: char| set.as_ref().map_or_else(|| python::is_space(c), |set| set.contains(&c));
    match which {
        "lstrip" => text.trim_start_matches(gone),
        "rstrip" => text.trim_end_matches(gone),
        _ => text.trim_matches(gone),
    }
    .to_string()
}

/// Python's methods; the strip methods are custom because Python's whitespace is wider than Unicode's.
fn method(state: &mut State, value: &Value, name: &str, args: &[Value]) -> Result<Value, Error> {
    if let (Some(text), "strip" | "lstrip" | "rstrip") = (value.as_str(), name) {
        let (chars,): (Option<String>,) = minijinja::value::from_args(args)?;
        return Ok(Value::from(strip(text, chars.as_deref(), name)));
    }
    if let (Some(text), "removeprefix" | "removesuffix") = (value.as_str(), name) {
        let (part,): (&str,) = minijinja::value::from_args(args)?;
        let rest = if name == "removeprefix" { text.strip_prefix(part) } else { text.strip_suffix(part) };
        return Ok(Value::from(rest.unwrap_or(text)));
    }
    minijinja_contrib::pycompat::unknown_method_callback(state, value, name, args)
}

/// Replaces transformers' {% generation %}, which marks assistant text for training masks and renders its
/// body. Only the keyword changes: `{%- generation %}` becomes `{%- if true %}`.
fn without_generation_tags(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(open) = rest.find("{%") {
        let Some(length) = rest[open..].find("%}") else { break };
        let tag = &rest[open..open + length];
        let word = tag[2..].trim_matches(|c: char| c == '-' || c == '+' || c.is_whitespace());
        out.push_str(&rest[..open]);
        match word {
            "generation" => out.push_str(&tag.replace("generation", "if true")),
            "endgeneration" => out.push_str(&tag.replace("endgeneration", "endif")),
            _ => {
                // A string in this tag may contain "{%": continue right after its opening.
                out.push_str("{%");
                rest = &rest[open + 2..];
                continue;
            }
        }
        rest = &rest[open + length..];
    }
    out.push_str(rest);
    out
}

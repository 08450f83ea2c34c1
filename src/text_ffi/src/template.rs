//! A chat template in transformers' environment: Jinja2 with trim_blocks, lstrip_blocks, loop controls,
//! raise_exception, strftime_now, and Python's str and json. Templates are untrusted, so source,
//! instructions, recursion, work, memory and output are limited.

use std::borrow::Cow;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use minijinja::machinery::{eval, make_string_output};
use minijinja::syntax::SyntaxConfig;
use minijinja::value::ValueKind;
use minijinja::{AutoEscape, Environment, Error, ErrorKind, State, UndefinedBehavior, Value};
use serde_json::Value as Json;

use crate::bounds::{self, Budget, Exceeded};
use crate::memory::{self, with_reserve};
use crate::program::Program;
use crate::{
    containers, filters, globals, macros, markup, methods, operators, printf, python, texts, Code, Failure,
};

const NAME: &str = "chat template";
/// The variable that passes the clock to strftime_now; templates cannot write this name.
const NOW: &str = "now in s";
/// Stack of a rendering. Only fuel bounds the nesting of values (`[ns.x]` in a loop), and minijinja drops and
/// compares them recursively. Only touched pages use memory.
const STACK_SIZE: usize = 512 << 20; // bytes
/// Max memory of rendering per byte of variables: JSON, the template's values, and the text.
const RENDER_NEED: usize = 192; // bytes
/// Work that a rendering may do per byte of variables: how often it may read them.
const RENDER_WORK: u64 = 256; // bytes
/// Memory that all renderings of a template may leak: a namespace that contains itself is never freed.
const MAX_LOST: u64 = 64 << 20; // bytes
/// Threads and errors keep less than this for themselves.
const MIN_LOST: u64 = 64 << 10; // bytes

/// Mirrors ft_text_limits.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Limits {
    pub fuel: u64,
    pub recursion_depth: u64,
    pub template_size: u64,
    pub output_size: u64,
    pub work: u64,
    pub memory: u64,
}

pub struct ChatTemplate {
    program: Program,
    env: Environment<'static>,
    limits: Limits,
    lost: AtomicU64, // bytes
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

/// Runs `work` on a thread with a large stack.
fn on_large_stack<T: Send>(
    what: &str,
    work: impl FnOnce() -> Result<T, Failure> + Send,
) -> Result<T, Failure> {
    std::thread::scope(|scope| {
        let roomy = std::thread::Builder::new().name("chat template".into()).stack_size(STACK_SIZE);
        let thread = roomy.spawn_scoped(scope, work).map_err(|e| {
            Failure::new(Code::Exhausted, format!("no thread to {what} on ({e}); free memory"))
        })?;
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
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
        let syntax = SyntaxConfig::builder()
            .trim_blocks(true)
            .lstrip_blocks(true)
            .build()
            .map_err(|e| Failure::new(Code::Panic, e.to_string()))?;
        let program = on_large_stack("compile", || {
            Program::compile(NAME, source, &syntax).map_err(|e| Failure::new(Code::Corrupt, sentence(&e)))
        })?;
        let mut env = environment();
        env.set_fuel(Some(limits.fuel));
        env.set_recursion_limit(limits.recursion_depth as usize);
        Ok(ChatTemplate { program, env, limits, lost: AtomicU64::new(0) })
    }

    /// Renders within `limits`; template size and call depth must be those that it was compiled with.
    pub fn render(&self, context: &[u8], now_s: i64, limits: &Limits) -> Result<Vec<u8>, Failure> {
        if self.lost.load(Ordering::Relaxed) > MAX_LOST {
            let text = "it keeps memory after each rendering, as a namespace does that holds itself";
            return Err(Failure::new(Code::Limit, text));
        }
        on_large_stack("render", || {
            with_reserve("the chat", RENDER_NEED, context.len(), || {
                let size = context.len() as u64;
                bounds::begin(Budget {
                    work: limits.work.saturating_add(RENDER_WORK.saturating_mul(size)),
                    memory: limits.memory.saturating_add((RENDER_NEED as u64).saturating_mul(size)),
                });
                let outcome = self.render_here(context, now_s, limits);
                let kept = outcome.as_ref().map_or_else(|e| e.message.capacity(), Vec::capacity) as u64;
                let lost = memory::held().saturating_sub(kept);
                self.lost.fetch_add(if lost > MIN_LOST { lost } else { 0 }, Ordering::Relaxed);
                outcome
            })
        })
    }

    fn render_here(&self, context: &[u8], now_s: i64, limits: &Limits) -> Result<Vec<u8>, Failure> {
        let invalid = |e: String| Failure::new(Code::Invalid, format!("the template's variables: {e}"));
        let context: Json = serde_json::from_slice(context).map_err(|e| invalid(e.to_string()))?;
        let Json::Object(variables) = context else {
            return Err(invalid("not a JSON object".into()));
        };
        let now = (NOW.to_string(), Value::from(now_s));
        let root = Value::from_pairs(variables.into_iter().map(|(k, v)| (k, value_of(v))).chain([now]));
        let mut text = String::new();
        let Program { main, blocks, .. } = &self.program;
        let mut env = Cow::Borrowed(&self.env);
        if limits.fuel != self.limits.fuel {
            env.to_mut().set_fuel(Some(limits.fuel));
        }
        let outcome =
            eval(&env, main, root, blocks, &mut make_string_output(&mut text), AutoEscape::None).map(drop);
        match outcome {
            Ok(()) if text.len() as u64 > limits.output_size => {
                Err(stopped(String::new(), format!("more than {} bytes of output", limits.output_size)))
            }
            Ok(()) => Ok(text.into_bytes()),
            Err(error) => Err(self.failure(&error, limits)),
        }
    }

    fn failure(&self, error: &Error, limits: &Limits) -> Failure {
        if let Some(raised) = raised_message(error) {
            return Failure::new(Code::Raised, raised);
        }
        let at = error.line().map(|line| format!(" at line {line}")).unwrap_or_default();
        let limit = |what: String| stopped(at.clone(), what);
        if let Some(exceeded) = causes(error).find_map(|e| e.downcast_ref::<Exceeded>()) {
            return limit(exceeded.0.clone());
        }
        match chain_kind(error) {
            ErrorKind::OutOfFuel => limit(format!("more than {} instructions", limits.fuel)),
            _ if format!("{error:#}").contains("recursion limit") => {
                limit(format!("more than {} calls inside each other", self.limits.recursion_depth))
            }
            _ => Failure::new(Code::Raised, sentence(error)),
        }
    }
}

fn stopped(at: String, what: String) -> Failure {
    Failure::new(Code::Limit, format!("the template was stopped{at}: {what}"))
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
    kinds.into_iter().find(|k| matches!(k, ErrorKind::OutOfFuel)).unwrap_or(error.kind())
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
    env.set_undefined_behavior(UndefinedBehavior::Lenient);
    env.set_auto_escape_callback(|_| AutoEscape::None);
    env.set_formatter(|out, _state, value| {
        let text = python::str_of(value)?;
        bounds::spend_memory(text.len() as u64)?;
        out.write_str(&text).map_err(Error::from)
    });
    env.set_unknown_method_callback(methods::method);
    env.remove_global("debug");
    operators::add_to(&mut env);
    containers::add_to(&mut env);
    filters::add_to(&mut env);
    texts::add_to(&mut env);
    markup::add_to(&mut env);
    printf::add_to(&mut env);
    macros::add_to(&mut env);
    globals::add_to(&mut env);
    env.add_function("raise_exception", raise_exception);
    env.add_function("strftime_now", strftime_now);
    env.add_function("range", range);
    // Jinja2's tests use Python's protocols: a string and a mapping are sequences, a bool is a number.
    env.add_test("sequence", |v: &Value| {
        v.is_undefined() || matches!(v.kind(), ValueKind::String | ValueKind::Seq | ValueKind::Map)
    });
    env.add_test("iterable", |v: &Value| {
        v.kind() == ValueKind::String || (!v.is_none() && v.try_iter().is_ok())
    });
    env.add_test("callable", |v: &Value| v.kind() == ValueKind::Plain);
    env.add_test("number", |v: &Value| matches!(v.kind(), ValueKind::Number | ValueKind::Bool));
    env
}

fn raise_exception(message: &Value) -> Result<Value, Error> {
    let text = python::str_of(message)?;
    Err(Error::new(ErrorKind::InvalidOperation, text.clone()).with_source(Raised(text)))
}

/// A list, since Python's range is a sequence.
fn range(first: i64, end: Option<i64>, step: Option<i64>) -> Result<Vec<i64>, Error> {
    const MAX_ITEMS: usize = 100_000; // as in Jinja2's sandbox
    let (start, end) = end.map_or((0, first), |end| (first, end));
    let step = step.unwrap_or(1);
    if step == 0 {
        return Err(Error::new(ErrorKind::InvalidOperation, "range: the step cannot be zero"));
    }
    let next = |at: &i64| at.checked_add(step);
    let items: Vec<i64> = std::iter::successors(Some(start), next)
        .take_while(|at| if step > 0 { *at < end } else { *at > end })
        .take(MAX_ITEMS + 1)
        .collect();
    if items.len() > MAX_ITEMS {
        let text = format!("range: more than {MAX_ITEMS} items");
        return Err(Error::new(ErrorKind::InvalidOperation, text));
    }
    bounds::spend(items.len() as u64)?;
    Ok(items)
}

fn strftime_now(state: &State, format: &str) -> Result<String, Error> {
    let now_s = state.lookup(NOW).and_then(|v| v.as_i64()).unwrap_or(0);
    // The forms of the C locale, which jiff writes differently.
    let format = &format.replace("%c", "%a %b %e %H:%M:%S %Y").replace("%x", "%m/%d/%y");
    let shown = jiff::Timestamp::from_second(now_s).and_then(|now| jiff::fmt::strtime::format(format, now));
    shown.map_err(|_| {
        Error::new(ErrorKind::InvalidOperation, format!("strftime_now does not know the format {format:?}"))
    })
}

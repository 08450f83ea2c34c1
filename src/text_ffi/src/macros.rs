//! A macro that binds its arguments as Jinja2 does: those beyond its own go to `varargs` and `kwargs`, which
//! `source` adds to the arguments of a macro that uses them.

use std::fmt;
use std::sync::Arc;

use minijinja::value::{Enumerator, Kwargs, Object, ObjectRepr, Tuple};
use minijinja::{Environment, Error, ErrorKind, State, Value};

use crate::bounds::spend_on;

#[derive(Debug)]
struct PythonMacro {
    inner: Value,
    name: Value,
    names: Vec<String>, // of its own arguments
    varargs: bool,
    kwargs: bool,
    caller: Value,
}

fn too_many(what: String) -> Error {
    Error::new(ErrorKind::TooManyArguments, what)
}

impl Object for PythonMacro {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::NonEnumerable
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        Some(match key.as_str()? {
            "name" => self.name.clone(),
            "arguments" => {
                Value::from(Tuple::from(self.names.iter().map(Value::from).collect::<Vec<Value>>()))
            }
            "caller" => self.caller.clone(),
            "catch_varargs" => Value::from(self.varargs),
            "catch_kwargs" => Value::from(self.kwargs),
            _ => return None,
        })
    }

    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name.as_str() {
            Some("caller") => f.write_str("<Macro anonymous>"),
            _ => write!(f, "<Macro '{}'>", self.name),
        }
    }

    fn call(self: &Arc<Self>, state: &mut State<'_, '_>, args: &[Value]) -> Result<Value, Error> {
        if !self.varargs && !self.kwargs {
            return self.inner.call(state, args);
        }
        spend_on(args)?;
        let (named, positional) = match args.split_last() {
            Some((last, rest)) if last.is_kwargs() => (Some(Kwargs::try_from(last.clone())?), rest),
            _ => (None, args),
        };
        let own = positional.len().min(self.names.len());
        if positional.len() > own && !self.varargs {
            return Err(too_many(format!("macro {} takes at most {own} arguments", self.name)));
        }
        let (mut passed, mut others) = (Vec::new(), Vec::new());
        for name in named.iter().flat_map(Kwargs::args) {
            let value: Value = named.as_ref().map(|all| all.get(name)).transpose()?.unwrap_or_default();
            let known = self.names[own..].iter().any(|one| one == name); // unless given by its place
            if known || (name == "caller" && self.caller.is_true()) {
                passed.push((name.to_string(), value));
            } else if self.kwargs {
                others.push((Value::from(name), value));
            } else {
                return Err(too_many(format!("macro {} takes no argument {name}", self.name)));
            }
        }
        if self.varargs {
            let rest = Value::from(Tuple::from(positional[own..].to_vec()));
            passed.push(("varargs".into(), rest));
        }
        if self.kwargs {
            passed.push(("kwargs".into(), Value::from_pairs(others)));
        }
        let mut all = positional[..own].to_vec();
        all.push(Value::from(Kwargs::from_iter(passed)));
        self.inner.call(state, &all)
    }
}

fn python_macro(inner: &Value) -> Result<Value, Error> {
    let mut names = Vec::new();
    for name in inner.get_attr("arguments")?.try_iter()? {
        names.push(name.to_string());
    }
    let mut takes =
        |word: &str| names.iter().position(|name| name == word).map(|at| names.remove(at)).is_some();
    let (varargs, kwargs) = (takes("varargs"), takes("kwargs"));
    let (name, caller) = (inner.get_attr("name")?, inner.get_attr("caller")?);
    Ok(Value::from_object(PythonMacro { inner: inner.clone(), name, names, varargs, kwargs, caller }))
}

pub fn add_to(env: &mut Environment) {
    env.add_filter("macro", python_macro);
}

//! Arguments by the names of Jinja2's and Python's parameters, positional or named, as Python binds them.

use minijinja::value::Kwargs;
use minijinja::{Error, Value};

use crate::filters::refuse;

pub struct Bound {
    names: &'static [&'static str],
    values: Vec<Option<Value>>,
}

impl Bound {
    /// Binds `args`, whose last one may be named arguments.
    pub fn of(what: &str, names: &'static [&'static str], args: &[Value]) -> Result<Bound, Error> {
        let (named, positional) = match args.split_last() {
            Some((last, rest)) if last.is_kwargs() => (Some(Kwargs::try_from(last.clone())?), rest),
            _ => (None, args),
        };
        if positional.len() > names.len() {
            let (given, most) = (positional.len(), names.len());
            return Err(refuse(format!("{what} takes at most {most} arguments, found {given}")));
        }
        let mut values: Vec<Option<Value>> = positional.iter().cloned().map(Some).collect();
        values.resize(names.len(), None);
        for name in named.iter().flat_map(Kwargs::args) {
            let at = names.iter().position(|known| *known == name);
            let Some(place) = at.map(|at| &mut values[at]).filter(|place| place.is_none()) else {
                return Err(refuse(format!("{what}: the argument {name} is unknown or given twice")));
            };
            *place = named.as_ref().map(|all| all.get(name)).transpose()?;
        }
        Ok(Bound { names, values })
    }

    /// The argument, which may be none.
    pub fn given(&self, name: &str) -> Option<&Value> {
        let at = self.names.iter().position(|known| *known == name)?;
        self.values[at].as_ref()
    }

    /// The argument unless it is missing or none.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.given(name).filter(|value| !value.is_none())
    }

    pub fn set(&mut self, name: &str, value: Value) {
        if let Some(at) = self.names.iter().position(|known| *known == name) {
            self.values[at] = Some(value);
        }
    }

    /// Python's truth of an argument; false if it is missing.
    pub fn is_true(&self, name: &str) -> bool {
        self.get(name).is_some_and(Value::is_true)
    }

    pub fn text(&self, what: &str, name: &str) -> Result<Option<String>, Error> {
        let Some(value) = self.get(name) else { return Ok(None) };
        match value.as_str() {
            Some(text) => Ok(Some(text.to_string())),
            None => Err(refuse(format!("{what}: {name} must be a text, found {}", value.kind()))),
        }
    }

    pub fn int(&self, what: &str, name: &str) -> Result<Option<i64>, Error> {
        let Some(value) = self.get(name) else { return Ok(None) };
        match value.as_i64() {
            Some(number) => Ok(Some(number)),
            None => Err(refuse(format!("{what}: {name} must be an integer, found {}", value.kind()))),
        }
    }

    /// All of them as named arguments, as minijinja's own filters take them.
    pub fn into_named(self) -> Value {
        let given = self.names.iter().zip(self.values);
        let given = given.filter_map(|(name, value)| Some((*name, value?))).filter(|(_, v)| !v.is_none());
        Value::from(Kwargs::from_iter(given))
    }
}

//! The functions that Jinja2 gives to every template, except the ones in `template`.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::Arc;

use minijinja::value::{from_args, Kwargs, Object, ObjectRepr, Rest, ValueKind, ValueOrKwargs};
use minijinja::{functions, Environment, Error, ErrorKind, State, Value};

use crate::arguments::Bound;
use crate::bounds::{extent, spend};
use crate::filters::refuse;
use crate::operators::items_of;

#[derive(Debug)]
struct Cycler {
    items: Vec<Value>,
    at: AtomicUsize,
}

impl Object for Cycler {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        match key.as_str()? {
            "current" => Some(self.items[self.at.load(Ordering::Relaxed)].clone()),
            "pos" => Some(Value::from(self.at.load(Ordering::Relaxed))),
            _ => None,
        }
    }

    fn call_method(
        self: &Arc<Self>,
        _state: &mut State<'_, '_>,
        method: &str,
        args: &[Value],
    ) -> Result<Value, Error> {
        let () = from_args(args)?;
        let at = self.at.load(Ordering::Relaxed);
        match method {
            "next" => {
                self.at.store((at + 1) % self.items.len(), Ordering::Relaxed);
                Ok(self.items[at].clone())
            }
            "reset" => {
                self.at.store(0, Ordering::Relaxed);
                Ok(Value::from(()))
            }
            _ => Err(Error::from(ErrorKind::UnknownMethod)),
        }
    }
}

fn cycler(items: Rest<Value>) -> Result<Value, Error> {
    if items.is_empty() {
        return Err(refuse("cycler needs an item"));
    }
    Ok(Value::from_object(Cycler { items: items.0, at: AtomicUsize::new(0) }))
}

#[derive(Debug)]
struct Joiner {
    separator: Value,
    used: AtomicBool,
}

impl Object for Joiner {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn call(self: &Arc<Self>, _state: &mut State<'_, '_>, args: &[Value]) -> Result<Value, Error> {
        let () = from_args(args)?;
        let used = self.used.swap(true, Ordering::Relaxed);
        Ok(if used { self.separator.clone() } else { Value::from("") })
    }
}

fn joiner(args: Rest<ValueOrKwargs>) -> Result<Value, Error> {
    let given = Bound::of("joiner", &["sep"], &args.into_values())?;
    let separator = given.get("sep").cloned().unwrap_or_else(|| Value::from(", "));
    Ok(Value::from_object(Joiner { separator, used: AtomicBool::new(false) }))
}

/// Python's dict(): of a map or of a list of pairs, then of named arguments.
fn dict_of(args: Rest<ValueOrKwargs>) -> Result<Value, Error> {
    let args = args.into_values();
    let (first, named): (Option<&Value>, Kwargs) = from_args(&args)?;
    let mut pairs = Vec::new();
    if let Some(map) = first.filter(|value| value.kind() == ValueKind::Map) {
        spend(extent(map))?;
        for key in map.try_iter()? {
            let value = map.get_item(&key)?;
            pairs.push((key, value));
        }
    } else if let Some(list) = first {
        for pair in items_of(list)? {
            match items_of(&pair)?.as_slice() {
                [key, value] => pairs.push((key.clone(), value.clone())),
                _ => return Err(refuse("dict: an item is not a pair")),
            }
        }
    }
    for name in named.args() {
        pairs.push((Value::from(name), named.get(name)?));
    }
    Ok(Value::from_pairs(pairs))
}

pub fn add_to(env: &mut Environment) {
    env.add_function("cycler", cycler);
    env.add_function("joiner", joiner);
    env.add_function("dict", dict_of);
    env.add_function("namespace", |state: &mut State, args: Rest<ValueOrKwargs>| {
        let all = dict_of(args)?;
        Value::from_function(functions::namespace).call(state, &[all])
    });
}

//! The pairs of `groupby`: tuples whose items have the names `grouper` and `list`.

use std::sync::Arc;

use minijinja::value::{Enumerator, Object, ObjectRepr};
use minijinja::{Error, Value};

#[derive(Debug)]
struct Group {
    grouper: Value,
    list: Value,
}

impl Object for Group {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Seq
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        match (key.as_usize(), key.as_str()) {
            (Some(0), _) | (_, Some("grouper")) => Some(self.grouper.clone()),
            (Some(1), _) | (_, Some("list")) => Some(self.list.clone()),
            _ => None,
        }
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Seq(2)
    }
}

/// The groups that minijinja found, whose lists are lazy.
pub fn of(found: &Value) -> Result<Value, Error> {
    let group = |one: Value| {
        let list: Value = one.get_item_by_index(1)?.try_iter()?.collect();
        Ok(Value::from_object(Group { grouper: one.get_item_by_index(0)?, list }))
    };
    found.try_iter()?.map(group).collect::<Result<Vec<Value>, Error>>().map(Value::from)
}

/// True for Python's tuples.
pub fn is_tuple(value: &Value) -> bool {
    value.is_tuple() || value.downcast_object_ref::<Group>().is_some()
}

//! Python's `format % values`.

use minijinja::value::{Rest, ValueKind, ValueOrKwargs};
use minijinja::{Environment, Error, Value};

use crate::bounds::{spend, spend_memory, spend_on_all_of};
use crate::filters::refuse;
use crate::operators::Number;
use crate::python::{repr_of, str_of};

/// A width or precision of more digits makes a text of that size.
const MAX_DIGITS: usize = 4;

#[derive(Default)]
struct Spec {
    left: bool,
    zero: bool,
    sign: Option<char>,
    alternate: bool,
    width: usize,
    precision: Option<usize>,
}

/// The values that a format takes: by place, or by name from a map.
struct Values<'a> {
    list: &'a [Value],
    map: Option<&'a Value>,
    taken: usize,
}

impl Values<'_> {
    fn next(&mut self, name: Option<&str>) -> Result<Value, Error> {
        if let Some(name) = name {
            let map = self.map.ok_or_else(|| refuse("a format with names needs a map"))?;
            let found = map.get_item(&Value::from(name))?;
            self.taken = self.list.len();
            return if found.is_undefined() {
                Err(refuse(format!("the format's map lacks {name}")))
            } else {
                Ok(found)
            };
        }
        let found = self.list.get(self.taken).cloned();
        self.taken += 1;
        found.ok_or_else(|| refuse("not enough arguments for the format"))
    }
}

fn digits(rest: &mut std::iter::Peekable<std::str::Chars>) -> Result<usize, Error> {
    let mut found = String::new();
    while let Some(c) = rest.next_if(char::is_ascii_digit) {
        found.push(c);
    }
    if found.len() > MAX_DIGITS || rest.peek() == Some(&'*') {
        return Err(refuse(format!("a width in a format has more than {MAX_DIGITS} digits, or is *")));
    }
    Ok(found.parse().unwrap_or(0))
}

fn padded(spec: &Spec, sign: &str, body: &str, number: bool) -> String {
    let missing = spec.width.saturating_sub(sign.chars().count() + body.chars().count());
    if spec.left {
        return format!("{sign}{body}{}", " ".repeat(missing));
    }
    if spec.zero && number {
        return format!("{sign}{}{body}", "0".repeat(missing));
    }
    format!("{}{sign}{body}", " ".repeat(missing))
}

fn number_of(value: &Value, conversion: char) -> Result<Number, Error> {
    Number::of(value).ok_or_else(|| {
        refuse(format!("%{conversion} in a format needs a number, found a value of kind {}", value.kind()))
    })
}

fn integer(spec: &Spec, value: &Value, conversion: char) -> Result<String, Error> {
    let number = match number_of(value, conversion)? {
        Number::Int(whole) => whole,
        Number::Float(x) if x.is_finite() && matches!(conversion, 'd' | 'i' | 'u') => x.trunc() as i128,
        Number::Float(_) => return Err(refuse(format!("%{conversion} in a format needs an integer"))),
    };
    let size = number.unsigned_abs();
    let (prefix, mut body) = match conversion {
        'x' => ("0x", format!("{size:x}")),
        'X' => ("0X", format!("{size:X}")),
        'o' => ("0o", format!("{size:o}")),
        _ => ("", size.to_string()),
    };
    let least = spec.precision.unwrap_or(0);
    if body.len() < least {
        body = "0".repeat(least - body.len()) + &body;
    }
    let sign = if number < 0 { "-".to_string() } else { spec.sign.map(String::from).unwrap_or_default() };
    Ok(padded(spec, &(sign + if spec.alternate { prefix } else { "" }), &body, true))
}

/// The digits of `%e`, whose exponent has at least two digits.
fn scientific(size: f64, precision: usize) -> (String, i32) {
    let shown = format!("{size:.precision$e}");
    let (mantissa, exponent) = shown.split_once('e').unwrap_or((&shown, "0"));
    (mantissa.to_string(), exponent.parse().unwrap_or(0))
}

fn with_exponent(mantissa: &str, exponent: i32) -> String {
    format!("{mantissa}e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.abs())
}

fn float(spec: &Spec, value: &Value, conversion: char) -> Result<String, Error> {
    let number = number_of(value, conversion)?.float();
    if spec.alternate {
        return Err(refuse("# in a format of a float is not supported"));
    }
    let (size, precision) = (number.abs(), spec.precision.unwrap_or(6));
    let body = if !number.is_finite() {
        if number.is_nan() { "nan" } else { "inf" }.to_string()
    } else {
        match conversion.to_ascii_lowercase() {
            'f' => format!("{size:.precision$}"),
            'e' => {
                let (mantissa, exponent) = scientific(size, precision);
                with_exponent(&mantissa, exponent)
            }
            _ => {
                let most = precision.max(1);
                let (mantissa, exponent) = scientific(size, most - 1);
                let short = |text: &str| {
                    if text.contains('.') {
                        text.trim_end_matches('0').trim_end_matches('.').to_string()
                    } else {
                        text.to_string()
                    }
                };
                if exponent < -4 || exponent >= most as i32 {
                    with_exponent(&short(&mantissa), exponent)
                } else {
                    let places = (most as i32 - 1 - exponent).max(0) as usize;
                    short(&format!("{size:.places$}"))
                }
            }
        }
    };
    let body = if conversion.is_ascii_uppercase() { body.to_uppercase() } else { body };
    let negative = number.is_sign_negative() && !number.is_nan();
    let sign = if negative { "-".to_string() } else { spec.sign.map(String::from).unwrap_or_default() };
    Ok(padded(spec, &sign, &body, number.is_finite()))
}

fn ascii(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c as u32 {
            0..=0x7f => out.push(c),
            n @ 0x80..=0xff => out.push_str(&format!("\\x{n:02x}")),
            n @ 0x100..=0xffff => out.push_str(&format!("\\u{n:04x}")),
            n => out.push_str(&format!("\\U{n:08x}")),
        }
    }
    out
}

fn converted(spec: &Spec, value: &Value, conversion: char) -> Result<String, Error> {
    let text = match conversion {
        'd' | 'i' | 'u' | 'x' | 'X' | 'o' => return integer(spec, value, conversion),
        'e' | 'E' | 'f' | 'F' | 'g' | 'G' => return float(spec, value, conversion),
        's' => str_of(value)?,
        'r' => repr_of(value)?,
        'a' => ascii(&repr_of(value)?),
        'c' => {
            let code = value.as_i64().filter(|_| matches!(Number::of(value), Some(Number::Int(_))));
            let named = code.and_then(|code| u32::try_from(code).ok()).and_then(char::from_u32);
            let single =
                value.as_str().and_then(|text| text.chars().next().filter(|_| text.chars().count() == 1));
            single.or(named).ok_or_else(|| refuse("%c in a format needs a character"))?.to_string()
        }
        _ => return Err(refuse(format!("a format has no conversion %{conversion}"))),
    };
    let most = spec.precision.filter(|_| conversion != 'c').unwrap_or(usize::MAX);
    let text = if most < text.len() { text.chars().take(most).collect() } else { text };
    Ok(padded(spec, "", &text, false))
}

pub fn formatted(format: &str, list: &[Value], map: Option<&Value>) -> Result<String, Error> {
    spend(format.len() as u64)?;
    list.iter().try_for_each(spend_on_all_of)?;
    let mut values = Values { list, map, taken: 0 };
    let mut out = String::new();
    let mut rest = format.chars().peekable();
    while let Some(c) = rest.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        let mut name = None;
        if rest.next_if_eq(&'(').is_some() {
            let (mut depth, mut found) = (1, String::new());
            for c in rest.by_ref() {
                depth += match c {
                    '(' => 1,
                    ')' => -1,
                    _ => 0,
                };
                if depth == 0 {
                    break;
                }
                found.push(c);
            }
            name = Some(found);
        }
        let mut spec = Spec::default();
        while let Some(flag) = rest.next_if(|c| matches!(c, '-' | '0' | '+' | ' ' | '#')) {
            match flag {
                '-' => spec.left = true,
                '0' => spec.zero = true,
                '#' => spec.alternate = true,
                '+' => spec.sign = Some('+'),
                _ => spec.sign = spec.sign.or(Some(' ')),
            }
        }
        spec.width = digits(&mut rest)?;
        if rest.next_if_eq(&'.').is_some() {
            spec.precision = Some(digits(&mut rest)?);
        }
        while rest.next_if(|c| matches!(c, 'h' | 'l' | 'L')).is_some() {}
        let Some(conversion) = rest.next() else { return Err(refuse("a format ends inside a conversion")) };
        if conversion == '%' {
            out.push('%');
            continue;
        }
        let text = converted(&spec, &values.next(name.as_deref())?, conversion)?;
        spend_memory(text.len() as u64)?;
        out.push_str(&text);
    }
    if values.taken < list.len() && map.is_none() {
        return Err(refuse("not all arguments of the format are used"));
    }
    Ok(out)
}

/// The filter: its arguments are either all by place or all by name.
fn format(format: &Value, args: Rest<ValueOrKwargs>) -> Result<String, Error> {
    let args = args.into_values();
    let text = str_of(format)?;
    match args.split_last() {
        Some((named, [])) if named.is_kwargs() => formatted(&text, &args, Some(named)),
        Some((named, _)) if named.is_kwargs() => {
            Err(refuse("format: arguments by place and by name together"))
        }
        _ => formatted(&text, &args, None),
    }
}

/// The operator: a tuple has the arguments, and a map may have them by name.
pub fn operator(format: &str, value: &Value, items: &[Value]) -> Result<String, Error> {
    let map = Some(value).filter(|value| value.kind() == ValueKind::Map);
    formatted(format, items, map)
}

pub fn add_to(env: &mut Environment) {
    env.add_filter("format", format);
}

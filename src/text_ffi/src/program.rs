//! A chat template as instructions for minijinja's virtual machine, with the operators of this library: they
//! behave as Jinja2's and pay for their work. Sources are untrusted: the number of parts of an expression is
//! limited, because the parser recurses into each (`not not not ...`).

use std::collections::BTreeMap;

use minijinja::machinery::{parse, CodeGenerator, Instruction, Instructions};
use minijinja::syntax::SyntaxConfig;
use minijinja::{Error, Value};

use crate::containers::attribute_filter;
use crate::source::rewritten;

pub type Blocks = BTreeMap<&'static str, Instructions<'static>>;

pub struct Program {
    pub main: Instructions<'static>,
    pub blocks: Blocks,
    /// The source; the instructions point into it.
    _source: Source,
}

/// A text with a fixed address, freed after everything that points into it.
struct Source(*mut str);

// SAFETY: the text is never written.
unsafe impl Send for Source {}
unsafe impl Sync for Source {}

impl Drop for Source {
    fn drop(&mut self) {
        // SAFETY: the pointer came from Box::into_raw, and Program drops its instructions first.
        drop(unsafe { Box::from_raw(self.0) });
    }
}

impl Program {
    pub fn compile(name: &'static str, source: &str, syntax: &SyntaxConfig) -> Result<Program, Error> {
        let source = with_unix_lines(source.strip_prefix('\u{feff}').unwrap_or(source));
        let source = rewritten(&source, syntax)?;
        let source = Source(Box::into_raw(source.into_boxed_str()));
        // SAFETY: the text lives as long as Program, which never hands out its instructions.
        let text: &'static str = unsafe { &*source.0 };
        let tree = parse(text, name, syntax.clone())?;
        let mut generator = CodeGenerator::new(name, text);
        generator.compile_stmt(&tree);
        let (main, blocks) = generator.finish();
        let blocks = blocks.into_iter().map(|(key, block)| (key, with_operators(&block))).collect();
        Ok(Program { main: with_operators(&main), blocks, _source: source })
    }
}

/// Jinja2 reads CR LF and CR as LF, in texts of expressions too.
fn with_unix_lines(source: &str) -> String {
    source.replace("\r\n", "\n").replace('\r', "\n")
}

fn filter(name: &'static str, arguments: u16) -> Instruction<'static> {
    const NOT_CACHED: u8 = !0;
    Instruction::ApplyFilter(name, Some(arguments), NOT_CACHED)
}

/// The instructions that replace one. Filters take their arguments from the same stack as operators.
fn replaced(instruction: &Instruction<'static>) -> Vec<Instruction<'static>> {
    use Instruction as I;
    vec![match instruction {
        // The formatter pays for the output.
        I::EmitRaw(text) => return vec![I::LoadConst(Value::from(*text)), I::Emit],
        I::BuildMacro(..) => return vec![instruction.clone(), filter("macro", 1)],
        I::PushLoop(_) => return vec![filter("for", 1), instruction.clone()],
        // A chained comparison, `a < b < c`, and loop.changed() compare whole values.
        I::CompareAndPreserve(_) => return vec![filter("chained", 1), instruction.clone()],
        I::CallMethod("changed", Some(count)) => filter("changed", *count),
        I::EndCapture => return vec![instruction.clone(), filter("captured", 1)],
        I::BuildMap(pairs) if *pairs < 10_000 => filter("{}", 2 * *pairs as u16),
        I::GetAttr(name) => match attribute_filter(name) {
            Some(name) => filter(name, 1),
            None => instruction.clone(),
        },
        I::GetItem => filter("[]", 2),
        I::Slice => filter("[:]", 4),
        I::Add => filter("+", 2),
        I::Sub => filter("-", 2),
        I::Mul => filter("*", 2),
        I::Div => filter("/", 2),
        I::IntDiv => filter("//", 2),
        I::Rem => filter("%", 2),
        I::Pow => filter("**", 2),
        I::Neg => filter("-x", 1),
        I::Eq => filter("==", 2),
        I::Ne => filter("!=", 2),
        I::Lt => filter("<", 2),
        I::Lte => filter("<=", 2),
        I::Gt => filter(">", 2),
        I::Gte => filter(">=", 2),
        I::In => filter("in", 2),
        I::StringConcat => filter("~", 2),
        other => other.clone(),
    }]
}

fn with_operators(old: &Instructions<'static>) -> Instructions<'static> {
    use Instruction as I;
    let all = || (0u32..).map_while(|at| old.get(at).map(|instruction| (at, instruction)));
    let mut place = Vec::new(); // of each old instruction in the new ones
    let mut count = 0u32;
    for (_, instruction) in all() {
        place.push(count);
        count += replaced(instruction).len() as u32;
    }
    place.push(count);
    let moved = |target: u32| place.get(target as usize).copied().unwrap_or(count);
    let mut new = Instructions::new(old.name(), old.source());
    for (at, instruction) in all() {
        for mut one in replaced(instruction) {
            match &mut one {
                I::Iterate(target)
                | I::Jump(target)
                | I::JumpIfFalse(target)
                | I::JumpIfFalseOrPop(target)
                | I::JumpIfTrueOrPop(target)
                | I::BuildMacro(_, target, _) => *target = moved(*target),
                _ => {}
            }
            match (old.get_span(at), old.get_line(at)) {
                (Some(span), _) => new.add_with_span(one, span),
                (None, Some(line)) => new.add_with_line(one, line as u16),
                (None, None) => new.add(one),
            };
        }
    }
    new
}

//! Bounds on what expressions cost: before one is evaluated, every place where it copies, makes or goes through values is
//! wrapped in a call that counts. The CEL library itself counts nothing and cannot be stopped.

use std::borrow::Cow;
use std::cell::Cell;

use cel::common::ast::{CallExpr, EntryExpr, Expr, IdedExpr, operators};
use cel::common::functions::Function;
use cel::common::types::{self, CelBytes, CelString};
use cel::common::value::Val;
use cel::{Env, ExecutionError};

/// What one look at all checks may cost: bytes that are copied, and more for what takes time.
const WORK: usize = 64 << 20;
/// What each turn of a macro such as `all` costs.
const TURN: usize = 256;
/// What a regular expression costs; it is compiled each time.
const MATCH: usize = 512 << 10;
/// Largest value that may be made.
const LARGEST: usize = 4 << 20;
/// Deepest expression; its evaluation recurses.
const DEEPEST: usize = 200;
/// Deepest value that may be made.
const DEEPEST_VALUE: usize = 100;

/// The function that counts what its argument costs.
const COUNTED: &str = "@counted";
/// The function that counts a turn.
const TURNED: &str = "@turned";
/// The function that counts a regular expression.
const MATCHED: &str = "@matched";

thread_local! {
    /// What is left of the budget of the evaluation that runs: functions of the library cannot carry anything.
    static LEFT: Cell<usize> = const { Cell::new(0) };
    static SPENT: Cell<bool> = const { Cell::new(false) };
}

/// What may still be spent; one for each look at a lab's checks.
#[derive(Debug)]
pub(crate) struct Budget {
    left: Cell<usize>,
}

impl Default for Budget {
    fn default() -> Self {
        Self { left: Cell::new(WORK) }
    }
}

impl Budget {
    /// What is left.
    pub(super) fn left(&self) -> usize {
        self.left.get()
    }

    /// Nothing, or so much, is left.
    pub(super) fn set(&self, left: Option<usize>) {
        self.left.set(left.unwrap_or_default());
    }
}

/// Runs an evaluation that may cost so much; says what it left, if anything. Operators such as `||` pass over errors, so
/// what comes out of a spent budget may look like a result.
pub(super) fn counting<T>(left: usize, evaluate: impl FnOnce() -> T) -> (T, Option<usize>) {
    LEFT.set(left);
    SPENT.set(false);
    let result = evaluate();
    (result, (!SPENT.get()).then(|| LEFT.get()))
}

fn take(work: usize) -> Result<(), ExecutionError> {
    match LEFT.get().checked_sub(work) {
        Some(left) => {
            LEFT.set(left);
            Ok(())
        }
        None => Err(spent()),
    }
}

fn spent() -> ExecutionError {
    LEFT.set(0);
    SPENT.set(true);
    ExecutionError::InternalError("the budget is spent".to_owned())
}

/// The standard functions, and those that count.
pub(super) fn environment() -> Env {
    let mut env = Env::stdlib();
    for (name, count) in [(COUNTED, counted as Function), (TURNED, turned), (MATCHED, matched)] {
        // Names of this form are no names in expressions, so there is nothing they could collide with.
        let added = env.add_overload(name, name, vec![types::DYN_TYPE], count);
        debug_assert!(added.is_ok(), "{name} is new");
    }
    env
}

fn only(mut arguments: Vec<Cow<'_, dyn Val>>) -> Result<Cow<'_, dyn Val>, ExecutionError> {
    arguments.pop().ok_or(ExecutionError::NoSuchOverload)
}

fn counted(arguments: Vec<Cow<'_, dyn Val>>) -> Result<Cow<'_, dyn Val>, ExecutionError> {
    let value = only(arguments)?;
    let mut sum = 0;
    size(value.as_ref(), &mut sum, 0)?;
    take(sum)?;
    Ok(value)
}

fn turned(arguments: Vec<Cow<'_, dyn Val>>) -> Result<Cow<'_, dyn Val>, ExecutionError> {
    take(TURN)?;
    only(arguments)
}

fn matched(arguments: Vec<Cow<'_, dyn Val>>) -> Result<Cow<'_, dyn Val>, ExecutionError> {
    take(MATCH)?;
    only(arguments)
}

/// Roughly how many bytes a value takes.
fn size(value: &dyn Val, sum: &mut usize, depth: usize) -> Result<(), ExecutionError> {
    *sum += 16;
    if let Some(text) = value.downcast_ref::<CelString>() {
        *sum += text.inner().len();
    } else if let Some(bytes) = value.downcast_ref::<CelBytes>() {
        *sum += bytes.inner().len();
    } else if let Some(items) = value.as_iterable() {
        let fields = value.downcast_ref::<types::CelMap>().and_then(|map| map.as_indexer());
        let mut items = items.iter();
        while let Some(item) = items.next() {
            size(item, sum, depth + 1)?;
            if let Some(Ok(Cow::Borrowed(field))) = fields.map(|fields| fields.get(item)) {
                size(field, sum, depth + 1)?;
            }
        }
    }
    if *sum > LARGEST || depth > DEEPEST_VALUE { Err(spent()) } else { Ok(()) }
}

/// The expression with everything counted; none where it is nested too deeply.
pub(super) fn count(expression: &IdedExpr) -> Option<IdedExpr> {
    counted_at(expression, 0)
}

fn call(function: &str, id: u64, argument: IdedExpr) -> IdedExpr {
    let call = CallExpr { func_name: function.to_owned(), target: None, args: vec![argument] };
    IdedExpr { id, expr: Expr::Call(call) }
}

fn counted_at(expression: &IdedExpr, depth: usize) -> Option<IdedExpr> {
    if depth > DEEPEST {
        return None;
    }
    let inner = |expression: &IdedExpr| counted_at(expression, depth + 1);
    // What is taken out of is not copied before.
    let container = |expression: &IdedExpr| match expression.expr {
        Expr::Ident(_) => Some(expression.clone()),
        _ => inner(expression),
    };
    let id = expression.id;
    let all = |expressions: &[IdedExpr]| expressions.iter().map(inner).collect::<Option<Vec<_>>>();
    let (expr, counts) = match &expression.expr {
        Expr::Unspecified | Expr::Literal(_) => return Some(expression.clone()),
        Expr::Ident(_) => (expression.expr.clone(), true),
        Expr::Call(one) => {
            let takes =
                matches!(one.func_name.as_str(), operators::INDEX | operators::OPT_INDEX | operators::OPT_SELECT);
            let mut args = all(&one.args)?;
            if let (true, Some(first), Some(written)) = (takes, args.first_mut(), one.args.first()) {
                *first = container(written)?;
            }
            let target = match &one.target {
                // This is no value, but part of a function's name: `optional.of`.
                Some(target) if target.expr == Expr::Ident("optional".to_owned()) => Some(target.clone()),
                Some(target) => Some(Box::new(inner(target)?)),
                None => None,
            };
            if one.func_name == "matches" {
                args = args.into_iter().map(|argument| call(MATCHED, id, argument)).collect();
            }
            let makes = takes || one.func_name == operators::ADD;
            (Expr::Call(CallExpr { func_name: one.func_name.clone(), target, args }), makes)
        }
        Expr::Select(select) => {
            let mut select = select.clone();
            *select.operand = container(&select.operand)?;
            let counts = !select.test;
            (Expr::Select(select), counts)
        }
        Expr::List(list) => {
            let mut list = list.clone();
            list.elements = all(&list.elements)?.into_iter().map(|element| call(COUNTED, id, element)).collect();
            (Expr::List(list), true)
        }
        Expr::Map(map) => {
            let mut map = map.clone();
            for entry in &mut map.entries {
                if let EntryExpr::MapEntry(entry) = &mut entry.expr {
                    entry.key = inner(&entry.key)?;
                    entry.value = call(COUNTED, id, inner(&entry.value)?);
                }
            }
            (Expr::Map(map), true)
        }
        Expr::Struct(_) => (expression.expr.clone(), false),
        Expr::Comprehension(one) => {
            let mut one = one.clone();
            for part in
                [&mut one.iter_range, &mut one.accu_init, &mut one.loop_cond, &mut one.loop_step, &mut one.result]
            {
                *part = inner(part)?;
            }
            one.loop_cond = call(TURNED, id, one.loop_cond);
            (Expr::Comprehension(one), true)
        }
    };
    let counted = IdedExpr { id, expr };
    Some(if counts { call(COUNTED, id, counted) } else { counted })
}

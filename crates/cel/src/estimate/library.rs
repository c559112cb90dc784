//! What functions on lists and sets cost at most, and those that Kubernetes adds to the language.

use super::{CallCost, Coster, PATTERN, TRAVERSAL};
use crate::ast::{ACCUMULATOR, Expr, Kind};
use crate::cost::Range;
use crate::types::Type;
use crate::value::Value;

impl Coster<'_> {
    /// The costs of the functions on lists and sets, without those of their arguments.
    ///
    /// // upstream: cel-go ext/lists.go, ext/sets.go
    pub(super) fn collections(
        &mut self,
        overload: &str,
        target: Option<&Expr>,
        arguments: &[Expr],
    ) -> Option<CallCost> {
        let number = |at: usize, otherwise: u64| match arguments.get(at).map(|argument| &argument.kind) {
            Some(Kind::Literal(Value::Int(number))) => u64::try_from(*number).unwrap_or(0),
            _ => otherwise,
        };
        let (of_target, first) = (self.size_or_unknown(target), self.size_or_unknown(arguments.first()));
        let (factor, result) = match overload {
            "list_sets_contains_list" | "list_sets_intersects_list" | "list_sets_equivalent_list" => {
                let factor = if overload == "list_sets_equivalent_list" { 2.0 } else { 1.0 };
                let second = self.size_or_unknown(arguments.get(1));
                return Some(first.times(second).scaled(factor).plus(Range::fixed(1)).into());
            }
            "list_slice" => (1.0, Range::fixed(number(1, of_target.max).wrapping_sub(number(0, 0)))),
            "lists_range" => (1.0, Range::fixed(number(0, u64::MAX))),
            "list_reverse" => (1.0, of_target),
            "list_flatten" => (1.0, of_target),
            "list_flatten_int" => (number(0, u64::MAX) as f64, of_target),
            "list_distinct" => (2.0, of_target.times(of_target)),
            "list_string_sort" | "list_bytes_sort" => (2.0 + TRAVERSAL, of_target.times(of_target)),
            _ if overload.starts_with("list_") && overload.ends_with("_sort") => (2.0, of_target.times(of_target)),
            _ => return None,
        };
        Some(CallCost { cost: result.scaled(factor).plus(Range::fixed(1 + 10)), size: Some(result) })
    }

    /// The costs of Kubernetes' own functions, without those of their arguments.
    pub(super) fn library(
        &mut self,
        function: &str,
        overload: &str,
        target: Option<&Expr>,
        arguments: &[Expr],
    ) -> Option<CallCost> {
        let (of_target, first) = (self.size_or_unknown(target), self.size_or_unknown(arguments.first()));
        let address = Range { min: 4, max: 16 };
        Some(match function {
            "check" => Range::fixed(350_000).into(),
            "fieldSelector" | "labelSelector" => {
                Range::fixed(10).plus(first.scaled(TRAVERSAL)).plus(first.scaled(0.5).scaled(50.0)).into()
            }
            "isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf" => self.through(target?, of_target).into(),
            "url" | "jsonpatch.escapeKey" => CallCost { cost: first.scaled(TRAVERSAL), size: Some(first) },
            "lowerAscii" | "upperAscii" | "substring" | "trim" => {
                CallCost { cost: of_target.scaled(TRAVERSAL), size: Some(of_target) }
            }
            "replace" => {
                let with = self.size_or_unknown(arguments.get(1));
                CallCost { cost: of_target.scaled(2.0 * TRAVERSAL), size: Some(replaced(of_target, first, with)) }
            }
            "split" => {
                let max = match arguments.get(1).map(|most| &most.kind) {
                    Some(Kind::Literal(Value::Int(most))) => *most as u64,
                    _ => of_target.max,
                };
                CallCost { cost: of_target.scaled(2.0 * TRAVERSAL), size: Some(Range { min: 0, max }) }
            }
            "join" => {
                let mut size = of_target.times(self.element(target?).1);
                if !arguments.is_empty() {
                    let between = Range { min: of_target.min.saturating_sub(1), max: of_target.max.saturating_sub(1) };
                    size = size.plus(first.times(between));
                }
                CallCost { cost: size.scaled(TRAVERSAL), size: Some(size) }
            }
            "find" | "findAll" => CallCost {
                cost: of_target.plus(Range::fixed(1)).scaled(TRAVERSAL).times(first.scaled(PATTERN)),
                size: Some(Range { min: 0, max: of_target.max }),
            },
            "ip" if overload == "cidr_ip" => Range::fixed(1).into(),
            "cidr" | "isIP" | "isCIDR" | "ip" | "quantity" | "isQuantity" | "semver" | "isSemver" => {
                first.scaled(TRAVERSAL).into()
            }
            "ip.isCanonical" => first.scaled(2.0 * TRAVERSAL).into(),
            "containsIP" | "containsCIDR" => {
                let mut cost = address.plus(address).scaled(TRAVERSAL);
                if function == "containsCIDR" {
                    cost = cost.plus(address.scaled(TRAVERSAL)).plus(Range::fixed(1));
                }
                if overload.ends_with("_string") {
                    cost = cost.plus(first.scaled(TRAVERSAL));
                }
                cost.into()
            }
            "validate" => first.scaled(TRAVERSAL).scaled(128.0 * PATTERN).into(),
            "_==_" => match (arguments.first(), arguments.get(1)) {
                (Some(one), Some(two)) if self.type_of(one) == self.type_of(two) => match self.type_of(one) {
                    Type::Opaque(name) if name.as_ref() == "kubernetes.NamedFormat" => {
                        Range { min: 1, max: 64 }.scaled(TRAVERSAL).into()
                    }
                    // Upstream looks at the size of the second one alone.
                    Type::Opaque(name) if name.as_ref() == "kubernetes.URL" => {
                        let max = self.size(two).map_or(1, |size| size.max);
                        Range { min: 1, max }.scaled(TRAVERSAL).into()
                    }
                    Type::Opaque(_) => Range::fixed(1).into(),
                    _ => return None,
                },
                _ => return None,
            },
            _ => return None,
        })
    }

    /// The type of a list's elements, and how large they are.
    fn element(&self, list: &Expr) -> (Type, Range) {
        let Type::List(element) = self.type_of(list) else { return (Type::Dyn, Range::UNKNOWN) };
        let path = self.path(list);
        let size = match path.first() {
            Some(first) if first != ACCUMULATOR => self.declared_size(&self.below(list, "@items")),
            _ => None,
        };
        (element.as_ref().clone(), size.unwrap_or(Range::UNKNOWN))
    }

    /// Going through a list once, its texts included; or through a text.
    fn through(&self, list: &Expr, size: Range) -> Range {
        if !matches!(self.type_of(list), Type::List(_)) {
            return size.scaled(TRAVERSAL);
        }
        let (element, of_element) = self.element(list);
        let mut one = Range::fixed(1);
        if matches!(element, Type::String | Type::Bytes) {
            one = one.plus(of_element.scaled(TRAVERSAL));
        }
        size.times(one)
    }
}

/// How long a text gets when parts of it are replaced.
fn replaced(text: Range, from: Range, to: Range) -> Range {
    let ratio = |whole: u64, part: u64| (whole as f64 / part as f64).ceil() as u64;
    let (most, kept) = if from.min == 0 {
        (text.max.saturating_add(1), text.max)
    } else if to.max <= from.min {
        (0, text.max)
    } else {
        (ratio(text.max, from.min), 0)
    };
    let (least, kept_least) = if from.max == 0 {
        (text.min.saturating_add(1), text.min)
    } else if from.max <= to.min {
        (0, text.min)
    } else {
        (ratio(text.min, from.max), 0)
    };
    Range { min: least, max: most }.times(to).plus(Range { min: kept_least, max: kept })
}

//! Which types may stand for which, and what type variables come to.
//!
//! // upstream: cel-go checker/types.go

use std::sync::Arc;

use crate::types::Type;

/// What type variables stand for, by their number.
#[derive(Debug, Clone, Default)]
pub(crate) struct Mapping(Vec<Option<Type>>);

impl Mapping {
    /// A variable of which nothing is known yet.
    pub(crate) fn fresh(&mut self) -> Type {
        self.0.push(None);
        Type::Variable(self.0.len().saturating_sub(1))
    }

    fn find(&self, variable: usize) -> Option<&Type> {
        self.0.get(variable)?.as_ref()
    }

    fn bind(&mut self, variable: usize, to: Type) {
        if let Some(place) = self.0.get_mut(variable) {
            *place = Some(to);
        }
    }

    /// The type with what its variables stand for; what stands for nothing stays, or becomes `dyn`.
    pub(crate) fn substitute(&self, given: &Type, rest_is_dyn: bool) -> Type {
        match given {
            Type::Variable(number) => match self.find(*number) {
                Some(found) => self.substitute(found, rest_is_dyn),
                None if rest_is_dyn => Type::Dyn,
                None => given.clone(),
            },
            _ => rebuilt(given, |inner| self.substitute(inner, rest_is_dyn)),
        }
    }

    /// Whether a value of the first type may stand where the second is asked for; binds variables as it needs.
    pub(crate) fn assignable(&mut self, from: &Type, to: &Type) -> bool {
        let mut trial = self.clone();
        let fits = trial.fits(from, to);
        if fits {
            *self = trial;
        }
        fits
    }

    /// The same for lists of types.
    pub(crate) fn all_assignable(&mut self, from: &[Type], to: &[Type]) -> bool {
        if from.len() != to.len() {
            return false;
        }
        let mut trial = self.clone();
        let fits = from.iter().zip(to).all(|(from, to)| trial.fits(from, to));
        if fits {
            *self = trial;
        }
        fits
    }

    fn fits(&mut self, one: &Type, two: &Type) -> bool {
        if let Type::Variable(number) = two {
            let (valid, bound) = self.may_stand(one, *number);
            if valid || bound {
                return valid;
            }
        }
        if let Type::Variable(number) = one {
            return self.may_stand(two, *number).0;
        }
        if one.is_dyn_or_error() || two.is_dyn_or_error() {
            return true;
        }
        match (one, two) {
            (Type::Null, _) => is_nullable(two),
            (_, Type::Null) => is_nullable(one),
            (Type::List(_), Type::List(_))
            | (Type::Map(..), Type::Map(..))
            | (Type::Optional(_), Type::Optional(_)) => {
                one.parameters().into_iter().zip(two.parameters()).all(|(one, two)| self.fits(one, two))
            }
            (Type::Type(_), Type::Type(_)) => true,
            _ => one == two,
        }
    }

    /// Whether the type may be what the variable stands for, and whether the variable stands for something already.
    fn may_stand(&mut self, given: &Type, variable: usize) -> (bool, bool) {
        if matches!(given, Type::Variable(same) if *same == variable) {
            return (true, true);
        }
        if let Some(bound) = self.find(variable).cloned() {
            if self.fits(given, &bound) {
                let general = if is_equal_or_less_specific(given, &bound) { given.clone() } else { bound };
                if !self.mentions(&general, variable) {
                    self.bind(variable, general);
                }
                return (true, true);
            }
            return (false, true);
        }
        if self.mentions(given, variable) {
            return (false, false);
        }
        self.bind(variable, given.clone());
        (true, false)
    }

    fn mentions(&self, given: &Type, variable: usize) -> bool {
        match given {
            Type::Variable(number) if *number == variable => true,
            Type::Variable(number) => self.find(*number).is_some_and(|found| self.mentions(found, variable)),
            _ => given.parameters().into_iter().any(|inner| self.mentions(inner, variable)),
        }
    }
}

/// The more general of two types of which one may stand for the other.
pub(crate) fn most_general(one: &Type, two: &Type) -> Type {
    if is_equal_or_less_specific(one, two) { one.clone() } else { two.clone() }
}

fn is_equal_or_less_specific(one: &Type, two: &Type) -> bool {
    if one.is_dyn_or_error() || matches!(one, Type::Variable(_)) {
        return true;
    }
    if two.is_dyn_or_error() || matches!(two, Type::Variable(_)) {
        return false;
    }
    if std::mem::discriminant(one) != std::mem::discriminant(two) {
        return false;
    }
    let (inner, other) = (one.parameters(), two.parameters());
    if inner.is_empty() {
        return one == two;
    }
    inner.into_iter().zip(other).all(|(one, two)| is_equal_or_less_specific(one, two))
}

fn is_nullable(given: &Type) -> bool {
    matches!(
        given,
        Type::Null | Type::Opaque(_) | Type::Optional(_) | Type::Duration | Type::Timestamp | Type::Object(_)
    )
}

/// The type with variables in the places of its parameters.
pub(crate) fn instantiate(given: &Type, names: &[Arc<str>], variables: &[Type]) -> Type {
    match given {
        Type::Param(name) => {
            names.iter().position(|known| known == name).and_then(|at| variables.get(at).cloned()).unwrap_or(Type::Dyn)
        }
        _ => rebuilt(given, |inner| instantiate(inner, names, variables)),
    }
}

fn rebuilt(given: &Type, mut inner: impl FnMut(&Type) -> Type) -> Type {
    match given {
        Type::List(element) => Type::list(inner(element)),
        Type::Optional(value) => Type::Optional(Arc::new(inner(value))),
        Type::Type(value) => Type::Type(Arc::new(inner(value))),
        Type::Map(key, value) => {
            let key = inner(key);
            Type::map(key, inner(value))
        }
        other => other.clone(),
    }
}

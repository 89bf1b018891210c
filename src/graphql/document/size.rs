//! The memory that a compiled document takes, by which the cache of documents is bounded: a short document may be compiled to much, since
//! each field has the conditions of everything around it, and each number of a literal is a value.

use std::mem::size_of;

use async_graphql_parser::Positioned;
use async_graphql_value::{Name, Value};

use super::super::variables::Variable;
use super::{Call, Conditions, Document, FieldKind, Fields, IntrospectedField, Operation, Root, SelectedField};

/// Bytes of a member of a settled selection beside its name: the item, and the item with a name around it.
const SETTLED_BYTES: usize = 160;

/// Something that owns memory.
trait Owning {
    /// Returns the bytes of what it owns, beyond its own size.
    fn owned(&self) -> usize;
}

impl<T: Owning> Owning for [T] {
    fn owned(&self) -> usize {
        self.iter().map(|one| size_of::<T>() + one.owned()).sum()
    }
}

impl<A: Owning, B: Owning> Owning for (A, B) {
    fn owned(&self) -> usize {
        self.0.owned() + self.1.owned()
    }
}

impl<T: Owning> Owning for Positioned<T> {
    fn owned(&self) -> usize {
        self.node.owned()
    }
}

impl Owning for bool {
    fn owned(&self) -> usize {
        0
    }
}

impl Owning for Name {
    /// Names are shared; each owner counts them.
    fn owned(&self) -> usize {
        2 * size_of::<usize>() + self.len()
    }
}

impl Owning for Value {
    fn owned(&self) -> usize {
        match self {
            Self::Variable(name) | Self::Enum(name) => name.owned(),
            Self::String(text) => text.len(),
            Self::Binary(bytes) => bytes.len(),
            Self::List(values) => values.owned(),
            Self::Object(members) => members
                .iter()
                .map(|(name, value)| size_of::<(usize, Name, Self)>() + name.owned() + value.owned())
                .sum(),
            Self::Null | Self::Number(_) | Self::Boolean(_) => 0,
        }
    }
}

impl Owning for Conditions {
    fn owned(&self) -> usize {
        self.0.owned()
    }
}

impl Owning for SelectedField {
    fn owned(&self) -> usize {
        let kind = match &self.kind {
            FieldKind::Typename(name) => name.len(),
            FieldKind::Attribute(_) => 0,
            FieldKind::Related(_, below) => below.owned(),
        };
        self.key.len() + self.conditions.owned() + kind
    }
}

impl Owning for Fields {
    fn owned(&self) -> usize {
        fn settled(fields: &[SelectedField]) -> usize {
            fields.iter().map(|field| SETTLED_BYTES + field.key.len() + settled(field.kind.subfields())).sum()
        }
        self.all.owned() + self.settled.as_ref().map_or(0, |_| settled(&self.all))
    }
}

impl Owning for Root {
    fn owned(&self) -> usize {
        let call = match &self.call {
            Call::Verb { arguments, .. } => arguments.owned(),
            Call::Typename(_) | Call::Introspection => 0,
        };
        self.key.len() + call + self.selected.owned()
    }
}

impl Owning for IntrospectedField {
    fn owned(&self) -> usize {
        let alias = self.field.alias.as_ref().map_or(0, Owning::owned);
        let field = alias + self.field.name.owned() + self.field.arguments.owned();
        field + self.conditions.owned() + self.below.owned()
    }
}

impl Owning for Variable {
    fn owned(&self) -> usize {
        self.name.owned() + self.of.to_string().len() + self.default.as_ref().map_or(0, Owning::owned)
    }
}

impl Owning for Operation {
    fn owned(&self) -> usize {
        let name = self.name.as_ref().map_or(0, String::len);
        name + self.variables.owned() + self.roots.owned() + self.introspected.owned()
    }
}

impl Document {
    /// Returns the bytes that it takes, approximately.
    pub fn bytes(&self) -> usize {
        size_of::<Self>() + self.operations.owned()
    }
}

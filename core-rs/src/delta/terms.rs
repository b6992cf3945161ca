//! The kinds of terms in the header.

use serde::{Deserialize, Deserializer, de::Error};

use super::object::{given, object};

/// Values that share a scale where groups do.
const GROUP: u64 = 128;

/// The most planes of signs.
const MAX_PLANES: u64 = 8;

/// Which signs share a scale.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs)] // the names are self-explanatory
pub enum Scale {
    Row,
    Matrix,
    Column,
    Group,
}

/// How a difference of zero is coded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Zero {
    Minus,
    Mask,
}

/// How a factor is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs)] // the names are self-explanatory
pub enum FactorCodec {
    Codes2,
    Sign,
    Int2,
    Int4,
    Int8,
    F16,
    Bf16,
    F32,
}

/// One of the terms whose sum is a tensor's change.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the fields are the header's own
pub enum Term {
    Raw,
    Sign {
        scale: Scale,
        mask: bool,
        planes: u64,
    },
    Ternary,
    Int {
        bits: u64,
    },
    Sparse {
        count: u64,
        index: &'static str,
        steps: u64,
        values: &'static str,
    },
    LowRank {
        rank: u64,
        a: FactorCodec,
        b: FactorCodec,
    },
}

/// Every field that some kind of term has.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fields {
    kind: String,
    #[serde(default, deserialize_with = "given")]
    scale: Option<Scale>,
    #[serde(default, deserialize_with = "given")]
    zero: Option<Zero>,
    #[serde(default, deserialize_with = "given")]
    planes: Option<u64>,
    #[serde(default, deserialize_with = "given")]
    group: Option<u64>,
    #[serde(default, deserialize_with = "given")]
    bits: Option<u64>,
    #[serde(default, deserialize_with = "given")]
    count: Option<u64>,
    #[serde(default, deserialize_with = "given")]
    index: Option<String>,
    #[serde(default, deserialize_with = "given")]
    steps: Option<u64>,
    #[serde(default, deserialize_with = "given")]
    values: Option<String>,
    #[serde(default, deserialize_with = "given")]
    rank: Option<u64>,
    #[serde(rename = "A", default, deserialize_with = "given")]
    a: Option<FactorCodec>,
    #[serde(rename = "B", default, deserialize_with = "given")]
    b: Option<FactorCodec>,
}

impl<'de> Deserialize<'de> for Term {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let fields: Fields = object(deserializer)?;
        fields.term().map_err(D::Error::custom)
    }
}

/// The type of this name among those that are allowed.
fn one_of(
    field: &str,
    got: Option<&str>,
    allowed: &[&'static str],
) -> Result<&'static str, String> {
    let found = allowed.iter().find(|name| Some(**name) == got);
    found
        .copied()
        .ok_or_else(|| format!("sparse {field}: expected one of {allowed:?}, got another"))
}

fn positive(field: &str, got: Option<u64>) -> Result<u64, String> {
    got.filter(|value| *value > 0)
        .ok_or_else(|| format!("{field}: expected at least 1, got {}", got.unwrap_or(0)))
}

impl Fields {
    /// Refuses fields of other kinds than this one, whose own they are.
    fn only(&self, own: &[&str]) -> Result<(), String> {
        let there = [
            ("scale", self.scale.is_some()),
            ("zero", self.zero.is_some()),
            ("planes", self.planes.is_some()),
            ("group", self.group.is_some()),
            ("bits", self.bits.is_some()),
            ("count", self.count.is_some()),
            ("index", self.index.is_some()),
            ("steps", self.steps.is_some()),
            ("values", self.values.is_some()),
            ("rank", self.rank.is_some()),
            ("A", self.a.is_some()),
            ("B", self.b.is_some()),
        ];
        let other = there
            .iter()
            .find(|(name, there)| *there && !own.contains(name));
        other.map_or(Ok(()), |(name, _)| {
            Err(format!("{} term: expected no {name}, got one", self.kind))
        })
    }

    fn check_group(&self, expected: Option<u64>) -> Result<(), String> {
        if self.group == expected {
            return Ok(());
        }
        let told = |group: Option<u64>| group.map_or("none".to_owned(), |group| group.to_string());
        let (expected, got) = (told(expected), told(self.group));
        Err(format!(
            "{} term: group: expected {expected}, got {got}",
            self.kind
        ))
    }

    fn term(self) -> Result<Term, String> {
        match self.kind.as_str() {
            "raw" => self.only(&[]).map(|()| Term::Raw),
            "sign" => self.sign(),
            "ternary" => {
                self.only(&["group"])?;
                self.check_group(Some(GROUP))?;
                Ok(Term::Ternary)
            }
            "int" => {
                self.only(&["group", "bits"])?;
                self.check_group(Some(GROUP))?;
                let bits = self.bits.filter(|bits| [2, 4, 8].contains(bits));
                let bits = bits.ok_or("int term: bits: expected 2, 4 or 8, got another")?;
                Ok(Term::Int { bits })
            }
            "sparse" => self.sparse(),
            "lowrank" => self.low_rank(),
            _ => Err(
                "kind of term: expected raw, sign, ternary, int, sparse or lowrank, got another"
                    .to_owned(),
            ),
        }
    }

    fn sign(self) -> Result<Term, String> {
        self.only(&["scale", "zero", "planes", "group"])?;
        let scale = self.scale.ok_or("sign term: expected a scale, got none")?;
        let zero = self.zero.ok_or("sign term: expected a zero, got none")?;
        self.check_group((scale == Scale::Group).then_some(GROUP))?;
        let planes = self.planes.unwrap_or(1);
        if !(1..=MAX_PLANES).contains(&planes) {
            return Err(format!(
                "sign term: planes: expected 1 to {MAX_PLANES}, got {planes}"
            ));
        }
        let mask = zero == Zero::Mask;
        Ok(Term::Sign {
            scale,
            mask,
            planes,
        })
    }

    fn sparse(self) -> Result<Term, String> {
        self.only(&["count", "index", "steps", "values"])?;
        Ok(Term::Sparse {
            count: positive("count", self.count)?,
            index: one_of("index", self.index.as_deref(), &["U8", "U16"])?,
            steps: positive("steps", self.steps)?,
            values: one_of("values", self.values.as_deref(), &["F32", "F16", "BF16"])?,
        })
    }

    fn low_rank(self) -> Result<Term, String> {
        self.only(&["rank", "group", "bits", "A", "B"])?;
        self.check_group(Some(GROUP))?;
        let rank = positive("rank", self.rank)?;
        let short = FactorCodec::Codes2;
        match (self.bits, self.a, self.b) {
            (Some(2), None, None) => Ok(Term::LowRank {
                rank,
                a: short,
                b: short,
            }),
            (None, Some(a), Some(b)) => Ok(Term::LowRank { rank, a, b }),
            _ => Err("lowrank term: expected bits 2, or A and B, got neither or both".to_owned()),
        }
    }
}

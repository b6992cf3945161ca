//! What version 2 of the format adds to the header of version 1.

use serde::Deserialize;

use super::{
    error::DeltaError,
    header::{Told, Version, check_hex},
    object::Object,
};
use crate::error::quote;

/// The promise of a private sum; what it means is the business of others.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Privacy {
    #[serde(rename = "mechanism")]
    _mechanism: Mechanism,
    #[serde(rename = "unit")]
    _unit: Unit,
    #[serde(rename = "epsilon")]
    _epsilon: f64,
    #[serde(rename = "delta")]
    _delta: f64,
    #[serde(rename = "sigma")]
    _sigma: f64,
    #[serde(rename = "clip")]
    _clip: f64,
    contributors: u64,
    values: u64,
    #[serde(rename = "noise_to_signal")]
    _noise_to_signal: f64,
}

#[derive(Deserialize)]
enum Mechanism {
    #[serde(rename = "discrete-gaussian")]
    DiscreteGaussian,
}

#[derive(Deserialize)]
enum Unit {
    #[serde(rename = "contribution")]
    Contribution,
}

/// The loss of a control on the same rows.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Control {
    kind: String,
    #[serde(rename = "loss")]
    _loss: f64,
}

/// Checks that a header has what its version has, and no more.
pub(super) fn check_extensions(told: &Told, version: Version) -> Result<(), DeltaError> {
    let quality = told.quality.as_ref().map(|Object(quality)| quality);
    if version == Version::One {
        let more = [
            ("privacy", told.privacy.is_some()),
            ("parents", told.parents.is_some()),
            ("quality.top1", quality.is_some_and(|q| q.top1.is_some())),
            ("quality.drift", quality.is_some_and(|q| q.drift.is_some())),
            (
                "quality.controls",
                quality.is_some_and(|q| q.controls.is_some()),
            ),
            ("quality.right", quality.is_some_and(|q| q.right.is_some())),
            ("quality.kept", quality.is_some_and(|q| q.kept.is_some())),
        ];
        return match more.iter().find(|(_, there)| *there) {
            None => Ok(()),
            Some((what, _)) => Err(wrong(what, "none in version 1", "one".to_owned())),
        };
    }
    let Some(parents) = &told.parents else {
        return Err(wrong("parents", "a list", "none".to_owned()));
    };
    for (at, parent) in parents.iter().enumerate() {
        check_hex("parents", Some(parent))?;
        if parents[..at].contains(parent) {
            return Err(wrong("parents", "each once", quote(parent)));
        }
    }
    if let Some(Object(privacy)) = &told.privacy {
        for (what, count) in [
            ("privacy.contributors", privacy.contributors),
            ("privacy.values", privacy.values),
        ] {
            if count == 0 {
                return Err(wrong(what, "at least 1", "0".to_owned()));
            }
        }
    }
    let Some(quality) = quality else {
        return Ok(());
    };
    check_kept(quality.right, quality.kept)?;
    match &quality.controls {
        None => Ok(()),
        Some(controls) => check_controls(controls),
    }
}

/// Checks the counts of general questions: both or none, and no more kept than were right.
fn check_kept(right: Option<u64>, kept: Option<u64>) -> Result<(), DeltaError> {
    match (right, kept) {
        (None, None) => Ok(()),
        (Some(right), Some(kept)) if right > 0 && kept <= right => Ok(()),
        _ => {
            let expected = "at most quality.right, which is at least 1";
            Err(wrong(
                "quality.kept",
                expected,
                format!("{kept:?} of {right:?}"),
            ))
        }
    }
}

fn check_controls(controls: &[Object<Control>]) -> Result<(), DeltaError> {
    let what = "quality.controls";
    if controls.is_empty() {
        return Err(wrong(what, "at least one", "none".to_owned()));
    }
    for pair in controls.windows(2) {
        let [Object(before), Object(after)] = pair else {
            continue;
        };
        if before.kind >= after.kind {
            let expected = "each kind once, in order";
            return Err(wrong(what, expected, quote(&after.kind)));
        }
    }
    Ok(())
}

fn wrong(what: &str, expected: &str, got: String) -> DeltaError {
    DeltaError::wrong(format!("header: {what}"), expected, got)
}

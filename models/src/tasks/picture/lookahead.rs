//! The slower copy of a network that it goes back to: see [`Lookahead`].

use std::{collections::HashMap, path::Path};

use candle_core::Tensor;

use crate::{
    Error, Result,
    arch::picture::Network,
    checkpoint::{save::write_safetensors, tensors::read_tensors},
    optim::lookahead::{Lookahead, meet},
};

/// Its file in a checkpoint.
const FILE: &str = "lookahead.safetensors";

/// The copy, by the names of the weights and running numbers.
pub(super) struct Slower {
    settings: Lookahead,
    copy: Vec<(String, Tensor)>,
}

impl Slower {
    /// A copy of a network as it is. Nothing where it is not to go back.
    pub(super) fn new(settings: Lookahead, network: &Network) -> Result<Option<Self>> {
        if settings.every == 0 {
            return Ok(None);
        }
        let all = network.parameters().iter();
        let copy = all.map(|it| Ok((it.name().to_owned(), it.tensor().force_contiguous()?)));
        Ok(Some(Self {
            settings,
            copy: copy.collect::<Result<_>>()?,
        }))
    }

    /// Follows the network once in a while, which then goes back to it.
    pub(super) fn stepped(
        &mut self,
        network: &mut Network,
        done: usize,
        steps: usize,
    ) -> Result<()> {
        let Some(kept) = self.settings.kept(done, steps) else {
            return Ok(());
        };
        for (name, slow) in &mut self.copy {
            let Some(now) = network.parameters().get(name) else {
                continue;
            };
            let moved = meet(slow, &now.tensor(), kept)?;
            network.set(name, &moved)?;
            *slow = moved;
        }
        Ok(())
    }

    /// Writes the copy into a checkpoint.
    pub(super) fn save(&self, folder: &Path) -> Result<()> {
        let copy = self.copy.iter().cloned().collect();
        write_safetensors(&folder.join(FILE), &copy, HashMap::new())
    }

    /// Reads that of a checkpoint.
    pub(super) fn load(&mut self, folder: &Path, network: &Network) -> Result<()> {
        let path = folder.join(FILE);
        let mut read = read_tensors(&path)?;
        for (name, slow) in &mut self.copy {
            let found = read.remove(name).filter(|it| it.dims() == slow.dims());
            let missing =
                || Error::format(&path, format!("`{name}` is missing, or of another shape"));
            let place = network.parameters().get(name).ok_or_else(missing)?.tensor();
            *slow = found.ok_or_else(missing)?.to_device(place.device())?;
        }
        Ok(())
    }
}

//! The tensors of a safetensors file that a checkpoint keeps beside its model, or that another program wrote.
//!
//! What the header says is compared with the file first, and the file is mapped and not read whole, so that one that is damaged or
//! something else takes no memory. The weights of a language model come another way (see [`super::load`]).

use std::{collections::BTreeMap, path::Path};

use candle_core::{Device, Tensor, safetensors::MmapedSafetensors};

use super::header::Header;
use crate::{Error, Result};

/// Reads all tensors of a file, on the CPU.
///
/// Errors: [`Error::File`] when it can’t be read, [`Error::Format`] or [`Error::Damaged`] when it is not what its header says.
pub fn read_tensors(path: &Path) -> Result<BTreeMap<String, Tensor>> {
    let header = Header::read(path)?;
    let damaged =
        |error: candle_core::Error| Error::damaged(path, "the weights are damaged", error);
    // SAFETY: a mapped file must not change while it is read. Checkpoints are written to a new folder and renamed, never changed in
    // place, and each tensor is copied out of the mapping.
    let file = unsafe { MmapedSafetensors::new(path) }.map_err(damaged)?;
    let tensor = |name: String| {
        let tensor = file.load(&name, &Device::Cpu).map_err(damaged)?;
        Ok((name, tensor))
    };
    header.tensors.into_keys().map(tensor).collect()
}

#[cfg(test)]
mod tests {
    use std::{collections::HashMap, fs};

    use super::*;
    use crate::checkpoint::save::write_safetensors;

    #[test]
    fn tensors_come_back_as_they_were_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.safetensors");
        let written = Tensor::new(&[[1u32, 2], [3, 4]], &Device::Cpu).unwrap();
        let tensors = [("a".to_owned(), written)].into();
        write_safetensors(&path, &tensors, HashMap::new()).unwrap();
        let read = read_tensors(&path).unwrap();
        assert_eq!(read.len(), 1);
        assert_eq!(read["a"].to_vec2::<u32>().unwrap(), [[1, 2], [3, 4]]);
    }

    #[test]
    fn a_file_that_is_shorter_than_it_says_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.safetensors");
        let tensors = [(
            "a".to_owned(),
            Tensor::new(&[1f32, 2.0], &Device::Cpu).unwrap(),
        )]
        .into();
        write_safetensors(&path, &tensors, HashMap::new()).unwrap();
        let whole = fs::read(&path).unwrap();
        fs::write(&path, &whole[..whole.len() - 1]).unwrap();
        let refused = read_tensors(&path).unwrap_err().to_string();
        assert!(
            refused.starts_with("the weights are incomplete"),
            "{refused}"
        );
    }
}

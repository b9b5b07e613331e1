//! Weights in a file of PyTorch, as `torch.save(model.state_dict(), path)` writes it: a zip with a list of tensors and a file of numbers
//! for each, none of them compressed. Weights can also be a part of what the list holds, with texts beside them.
//!
//! Deliberately absent: everything else that such a file can hold, and files from before PyTorch 1.6, which are no zip.

mod pickle;

use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, BufReader, BufWriter, Read, Write},
    path::{Path, PathBuf},
};

use candle_core::{DType, Device, Tensor};
use zip::{
    CompressionMethod, ZipArchive, ZipWriter,
    read::{ArchiveOffset, Config},
    write::SimpleFileOptions,
};

use self::pickle::{Contents, Listed};
use crate::{Error, Result, limits::TORCH_LIST};

/// A file of weights, of which the list was read.
pub struct TorchFile {
    path: PathBuf,
    archive: ZipArchive<BufReader<File>>,
    /// The folder inside that all is in.
    folder: String,
    contents: Contents,
    listed: BTreeMap<String, Listed>,
}

impl TorchFile {
    /// Opens a file of weights and reads its list of tensors.
    pub fn open(path: &Path) -> Result<Self> {
        Self::open_part(path, &[])
    }

    /// Opens a file in which weights are among other things: in the dictionary that the names of this part lead to.
    pub fn open_part(path: &Path, part: &[&str]) -> Result<Self> {
        let file = File::open(path).map_err(Error::file("read the weights", path))?;
        let wrong = |problem: String| Error::format(path, problem);
        // PyTorch puts nothing before the archive. Whoever looks for where it begins is misled by a file whose name is 21 letters long.
        let begins = Config {
            archive_offset: ArchiveOffset::Known(0),
        };
        let archive = ZipArchive::with_config(begins, BufReader::new(file));
        let mut archive = archive
            .map_err(|error| wrong(format!("is no file of PyTorch 1.6 or later: {error}")))?;
        let names = archive
            .file_names()
            .filter_map(|name| Some(name.ok()?.into_owned()));
        let lists: Vec<String> = names
            .filter_map(|it| Some(it.strip_suffix("data.pkl")?.to_owned()))
            .collect();
        let [folder] = lists.as_slice() else {
            let found = lists.len();
            return Err(wrong(format!(
                "has {found} lists of tensors, and a file of weights has one"
            )));
        };
        let order = stored(&mut archive, &format!("{folder}byteorder"), 16).unwrap_or_default();
        if order.starts_with(b"big") {
            return Err(wrong(
                "has the highest byte of each number first".to_owned(),
            ));
        }
        let list = stored(&mut archive, &format!("{folder}data.pkl"), TORCH_LIST.most);
        let contents = list.and_then(|list| Contents::read(&list));
        let contents = contents.map_err(wrong)?;
        Ok(Self {
            path: path.to_owned(),
            folder: folder.clone(),
            archive,
            listed: contents.tensors(part).map_err(wrong)?,
            contents,
        })
    }

    /// A text that stands beside the weights, in the dictionaries that these names lead to.
    pub fn text(&self, names: &[&str]) -> Option<&str> {
        self.contents.text(names)
    }

    /// The names of the tensors with their shapes.
    pub fn shapes(&self) -> BTreeMap<String, Vec<usize>> {
        let shape = |it: &Listed| it.shape.iter().map(|size| *size as usize).collect();
        self.listed
            .iter()
            .map(|(name, it)| (name.clone(), shape(it)))
            .collect()
    }

    /// Reads a tensor, in the dtype that it has there.
    pub fn tensor(&mut self, name: &str) -> Result<Tensor> {
        let wrong =
            |path: &Path, problem: String| Error::format(path, format!("`{name}` {problem}"));
        let missing = || wrong(&self.path, "is missing".to_owned());
        let listed = self.listed.get(name).ok_or_else(missing)?;
        let dtype = match listed.kind {
            "f32" => DType::F32,
            "bf16" => DType::BF16,
            "f16" => DType::F16,
            "f64" => DType::F64,
            other => {
                return Err(wrong(
                    &self.path,
                    format!(
                        "has numbers of the kind {other}, and weights are of f32, bf16, f16 or f64"
                    ),
                ));
            }
        };
        let place = place(listed, dtype.size_in_bytes() as u64);
        let place = place.ok_or_else(|| {
            wrong(
                &self.path,
                "is no tensor whose numbers lie one after the other".to_owned(),
            )
        })?;
        let file = format!("{}data/{}", self.folder, listed.storage);
        let bytes = part(&mut self.archive, &file, place);
        let bytes = bytes.map_err(|problem| wrong(&self.path, problem))?;
        let shape: Vec<usize> = listed.shape.iter().map(|size| *size as usize).collect();
        Ok(Tensor::from_raw_buffer(
            &bytes,
            dtype,
            &shape,
            &Device::Cpu,
        )?)
    }
}

/// Where the bytes of a tensor are in its storage: how many before it, and how many it has. Nothing where they don't lie one after
/// the other, or can't be counted.
fn place(listed: &Listed, width: u64) -> Option<(u64, u64)> {
    let mut count: u64 = 1;
    let axes = listed.shape.iter().zip(&listed.strides);
    if listed.shape.len() != listed.strides.len() {
        return None;
    }
    for (size, stride) in axes.rev() {
        if *size != 1 && *stride != count {
            return None;
        }
        count = count.checked_mul(*size)?;
    }
    Some((listed.offset.checked_mul(width)?, count.checked_mul(width)?))
}

/// A file inside the file, whole, of at most so many bytes.
fn stored(
    archive: &mut ZipArchive<BufReader<File>>,
    name: &str,
    most: u64,
) -> std::result::Result<Vec<u8>, String> {
    let file = archive
        .by_name(name)
        .map_err(|error| format!("`{name}` can’t be read: {error}"))?;
    let (method, size) = (file.compression(), file.size());
    if method != CompressionMethod::Stored || size > most {
        return Err(format!(
            "`{name}` has {size} bytes in the form {method:?}, and {most} that are stored as they are is the most"
        ));
    }
    let mut bytes = Vec::new();
    file.take(most)
        .read_to_end(&mut bytes)
        .map_err(|error| format!("`{name}` can’t be read: {error}"))?;
    Ok(bytes)
}

/// A part of a file inside the file: after so many bytes, so many.
fn part(
    archive: &mut ZipArchive<BufReader<File>>,
    name: &str,
    (before, length): (u64, u64),
) -> std::result::Result<Vec<u8>, String> {
    let failed = |error: &dyn std::fmt::Display| format!("can’t be read: {error}");
    let mut file = archive.by_name(name).map_err(|error| failed(&error))?;
    let end = before.checked_add(length);
    if file.compression() != CompressionMethod::Stored
        || end.is_none_or(|end| end > file.compressed_size())
    {
        let size = file.compressed_size();
        return Err(format!(
            "has {length} bytes after {before}, where {size} are stored"
        ));
    }
    io::copy(&mut file.by_ref().take(before), &mut io::sink()).map_err(|error| failed(&error))?;
    let mut bytes = Vec::new();
    let length = usize::try_from(length).map_err(|error| failed(&error))?;
    // What a file says of its length is not always so, and room for it is not always there.
    bytes
        .try_reserve_exact(length)
        .map_err(|error| failed(&error))?;
    file.take(length as u64)
        .read_to_end(&mut bytes)
        .map_err(|error| failed(&error))?;
    match bytes.len() == length {
        true => Ok(bytes),
        false => Err(format!("ends after {} of {length} bytes", bytes.len())),
    }
}

/// Writes tensors so that `torch.load` reads them. Those that are neither f32, bf16 nor f16 become f32.
pub fn write(path: &Path, tensors: &[(String, Tensor)]) -> Result<()> {
    let failed = || Error::file("write the weights", path);
    let in_zip = |error: zip::result::ZipError| failed()(io::Error::other(error));
    let mut listed = Vec::new();
    for (name, tensor) in tensors {
        let tensor = match tensor.dtype() {
            DType::F32 | DType::BF16 | DType::F16 => tensor.to_device(&Device::Cpu)?,
            _ => tensor.to_dtype(DType::F32)?.to_device(&Device::Cpu)?,
        };
        listed.push((name.as_str(), tensor.dtype().as_str(), tensor));
    }
    let list: Vec<(&str, &str, &[usize])> = listed
        .iter()
        .map(|(name, kind, tensor)| (*name, *kind, tensor.dims()))
        .collect();
    let folder = path
        .file_stem()
        .map_or("archive".into(), |it| it.to_string_lossy());
    let file = File::create(path).map_err(failed())?;
    let mut zip = ZipWriter::new(BufWriter::new(file));
    // Where PyTorch's own program lays them.
    let options = SimpleFileOptions::default()
        .compression_method(CompressionMethod::Stored)
        .with_alignment(64);
    let mut put = |name: String, bytes: &[u8]| -> Result<()> {
        let options = options.large_file(bytes.len() as u64 >= u64::from(u32::MAX));
        zip.start_file(format!("{folder}/{name}"), options)
            .map_err(in_zip)?;
        zip.write_all(bytes).map_err(failed())
    };
    put("data.pkl".to_owned(), &pickle::write(&list))?;
    put("byteorder".to_owned(), b"little")?;
    for (index, (_, _, tensor)) in listed.iter().enumerate() {
        put(format!("data/{index}"), &bytes_of(tensor)?)?;
    }
    put("version".to_owned(), b"3\n")?;
    let file = zip.finish().map_err(in_zip)?;
    let file = file
        .into_inner()
        .map_err(|error| failed()(error.into_error()))?;
    file.sync_all().map_err(failed())
}

fn bytes_of(tensor: &Tensor) -> Result<Vec<u8>> {
    let flat = tensor.flatten_all()?;
    Ok(match tensor.dtype() {
        DType::BF16 => flat
            .to_vec1::<half::bf16>()?
            .iter()
            .flat_map(|it| it.to_le_bytes())
            .collect(),
        DType::F16 => flat
            .to_vec1::<half::f16>()?
            .iter()
            .flat_map(|it| it.to_le_bytes())
            .collect(),
        _ => flat
            .to_vec1::<f32>()?
            .iter()
            .flat_map(|it| it.to_le_bytes())
            .collect(),
    })
}

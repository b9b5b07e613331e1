//! What is kept of the states of one pass over some texts: the positions that were asked for, of all sites. Nothing else leaves the
//! device, and all sites leave it in one copy.
//!
//! Shapes: t tokens of a pass, n texts of it, m vectors that are kept, s sites, d width.

use candle_core::{D, DType, Device, Tensor};

use super::{capture_prompt::Prompted, states::Position, states_writer::numbers_of};
use crate::{
    Error, Result,
    arch::{
        decoder::{Decoder, Input},
        sites::Site,
    },
};

/// The states of some rows in one pass: for each site [m, width].
pub(super) fn states_of(
    decoder: &Decoder,
    rows: &[Prompted],
    position: Position,
    sites: &[Site],
) -> Result<Vec<Vec<f32>>> {
    numbers_of(&stacked_states_of(decoder, rows, position, sites)?)
}

/// The states of some rows in one pass, of all sites in one tensor [s, m, width] on the CPU.
pub(super) fn stacked_states_of(
    decoder: &Decoder,
    rows: &[Prompted],
    position: Position,
    sites: &[Site],
) -> Result<Tensor> {
    let mut tokens = Vec::new();
    let (mut positions, mut documents) = (Vec::new(), Vec::new());
    for (row, document) in rows.iter().zip(0..) {
        tokens.extend(&row.tokens);
        positions.extend(0..row.tokens.len() as u32);
        documents.resize(tokens.len(), document);
    }
    let input = Input {
        tokens: &tokens,
        rows: 1,
        positions: Some(&positions),
        documents: Some(&documents),
    };
    let picker = Picker::new(rows, position, decoder.device())?;
    let states = decoder.map_hidden(input, sites, |x| picker.pick(&x.squeeze(0)?))?;
    Ok(Tensor::stack(&states, 0)?.to_device(&Device::Cpu)?)
}

/// Takes from the states of a pass what is kept.
struct Picker {
    position: Position,
    /// The tokens that are kept as they are [m].
    kept: Option<Tensor>,
    /// The share of each token in the mean of each text [n, t].
    shares: Option<Tensor>,
    /// The tokens of each text, the last one repeated up to the longest [n · longest].
    repeated: Option<(Tensor, usize)>,
}

impl Picker {
    fn new(rows: &[Prompted], position: Position, device: &Device) -> Result<Self> {
        let mut start = 0;
        let picked: Vec<Vec<u32>> = rows
            .iter()
            .map(|row| {
                let picked = row.picked.iter().map(|it| start + it).collect();
                start += row.tokens.len() as u32;
                picked
            })
            .collect();
        let tokens = start as usize;
        let mut picker = Self {
            position,
            kept: None,
            shares: None,
            repeated: None,
        };
        match position {
            Position::Last | Position::Tokens => {
                let kept = picked.concat();
                picker.kept = Some(Tensor::new(kept, device)?);
            }
            Position::Mean | Position::Answer | Position::Marked => {
                picker.shares = Some(shares(&picked, tokens, device)?);
            }
            Position::Max => picker.repeated = Some(repeated(&picked, device)?),
            Position::MeanAndMax => {
                picker.shares = Some(shares(&picked, tokens, device)?);
                picker.repeated = Some(repeated(&picked, device)?);
            }
        }
        Ok(picker)
    }

    /// The states of a site [t, d] -> [m, width].
    fn pick(&self, x: &Tensor) -> Result<Tensor> {
        if let Some(kept) = &self.kept {
            return Ok(x.index_select(kept, 0)?);
        }
        let mean = self
            .shares
            .as_ref()
            .map(|shares| -> Result<Tensor> { Ok(shares.matmul(&x.to_dtype(DType::F32)?)?) });
        let max = self
            .repeated
            .as_ref()
            .map(|(index, texts)| -> Result<Tensor> {
                let x = x.index_select(index, 0)?;
                let (rows, width) = x.dims2()?;
                Ok(x.reshape((*texts, rows / texts, width))?.max(1)?)
            });
        match (mean.transpose()?, max.transpose()?) {
            (Some(mean), Some(max)) => {
                Ok(Tensor::cat(&[mean, max.to_dtype(DType::F32)?], D::Minus1)?)
            }
            (Some(one), None) | (None, Some(one)) => Ok(one),
            (None, None) => {
                let problem = format!("nothing is kept of the position {:?}", self.position);
                Err(Error::Data(problem))
            }
        }
    }
}

fn shares(picked: &[Vec<u32>], tokens: usize, device: &Device) -> Result<Tensor> {
    let mut shares = vec![0f32; picked.len() * tokens];
    for (row, picked) in shares.chunks_mut(tokens.max(1)).zip(picked) {
        for at in picked {
            row[*at as usize] = 1.0 / picked.len() as f32;
        }
    }
    Ok(Tensor::from_vec(shares, (picked.len(), tokens), device)?)
}

fn repeated(picked: &[Vec<u32>], device: &Device) -> Result<(Tensor, usize)> {
    let longest = picked.iter().map(Vec::len).max().unwrap_or_default();
    let repeat = |picked: &Vec<u32>| {
        let last = picked.last().copied().unwrap_or_default();
        let mut picked = picked.clone();
        picked.resize(longest, last);
        picked
    };
    let index: Vec<u32> = picked.iter().flat_map(repeat).collect();
    Ok((Tensor::new(index, device)?, picked.len()))
}

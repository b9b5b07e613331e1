//! Runs kernels for the tests of `models`: those see to it that the program hands over what the kernels expect.
//!
//! A request on standard input: the name of the kernel and of its storage, how many buffers there are, the bytes of each, those of
//! the values, and the groups, x and y. Everything has its length before it, in four bytes, the lowest first. The answer on
//! standard output: 0 and the bytes of each buffer, or 1 and what went wrong.

use std::{
    collections::HashMap,
    io::{self, Read, Write},
};

use crate::{device::Gpu, kernels};

/// Answers until the input ends.
///
/// Errors: what is wrong with the input or the output.
pub fn answer(gpu: &Gpu) -> Result<(), String> {
    let (mut input, mut output) = (io::stdin().lock(), io::stdout().lock());
    let mut pipelines = HashMap::new();
    loop {
        let Some(name) = bytes(&mut input).ok() else {
            return Ok(());
        };
        let request = Request::read(name, &mut input).map_err(|problem| problem.to_string())?;
        let pipeline = pipelines.entry([request.kernel.clone(), request.storage.clone()]);
        let pipeline = pipeline.or_insert_with(|| {
            gpu.pipeline(&kernels::find(&request.kernel).source(&request.storage))
        });
        let mut bound: Vec<_> = request.buffers.iter().map(|it| gpu.buffer(it)).collect();
        bound.push(gpu.values(&request.values));
        let answer = gpu
            .dispatch(pipeline, &bound, request.groups, 1)
            .and_then(|_| {
                let buffers = bound[..request.buffers.len()].iter().map(|it| gpu.read(it));
                buffers.collect::<Result<Vec<_>, _>>()
            });
        let sent = match answer {
            Ok(buffers) => send(&mut output, 0, &buffers),
            Err(problem) => send(&mut output, 1, &[problem.into_bytes()]),
        };
        sent.map_err(|problem| problem.to_string())?;
    }
}

struct Request {
    kernel: String,
    storage: String,
    buffers: Vec<Vec<u8>>,
    values: Vec<u8>,
    groups: [u32; 2],
}

impl Request {
    fn read(kernel: Vec<u8>, input: &mut impl Read) -> io::Result<Self> {
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        let storage = text(bytes(input)?);
        let count = number(input)?;
        Ok(Self {
            kernel: text(kernel),
            storage,
            buffers: (0..count)
                .map(|_| bytes(input))
                .collect::<io::Result<_>>()?,
            values: bytes(input)?,
            groups: [number(input)?, number(input)?],
        })
    }
}

fn number(input: &mut impl Read) -> io::Result<u32> {
    let mut number = [0; 4];
    input.read_exact(&mut number)?;
    Ok(u32::from_le_bytes(number))
}

fn bytes(input: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; number(input)? as usize];
    input.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn send(output: &mut impl Write, status: u32, buffers: &[Vec<u8>]) -> io::Result<()> {
    output.write_all(&status.to_le_bytes())?;
    for buffer in buffers {
        output.write_all(&(buffer.len() as u32).to_le_bytes())?;
        output.write_all(buffer)?;
    }
    output.flush()
}

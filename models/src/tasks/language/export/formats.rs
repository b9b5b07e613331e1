//! The formats, one row each.

use crate::checkpoint::gguf::Mix;

/// What a language model is written as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// The adapter, as peft keeps it.
    Adapter,
    /// The whole model, as the Hub keeps it.
    Merged,
    /// The whole model as a file of llama.cpp.
    Gguf(Mix),
    /// The adapter as one.
    GgufAdapter,
    /// The whole model as mlx-lm reads it.
    Mlx,
    /// The same with matrices in groups of 4 bits.
    MlxFourBits,
    /// The adapter as mlx-lm reads it.
    MlxAdapter,
}

/// What is known of a format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AboutFormat {
    /// Which one.
    pub format: Format,
    /// Its name, as it is asked for.
    pub name: &'static str,
    /// Its name for people.
    pub title: &'static str,
    /// How the name of a file ends. Nothing where it is a folder.
    pub ending: Option<&'static str>,
    /// The programs that it works in.
    pub readers: &'static str,
}

const CODE: &str = "Transformers, vLLM";
const APPS: &str = "llama.cpp, Ollama, LM Studio, Jan";

/// All formats, those that are asked for most first.
pub const FORMATS: [AboutFormat; 14] = [
    row(Format::Adapter, "adapter", "Adapter", CODE),
    row(Format::Merged, "merged", "Merged model", CODE),
    row(Format::Gguf(Mix::Q4KM), "gguf-q4_k_m", "GGUF Q4_K_M", APPS),
    row(Format::Gguf(Mix::Q5KM), "gguf-q5_k_m", "GGUF Q5_K_M", APPS),
    row(Format::Gguf(Mix::Q6K), "gguf-q6_k", "GGUF Q6_K", APPS),
    row(Format::Gguf(Mix::Q8_0), "gguf-q8_0", "GGUF Q8_0", APPS),
    row(Format::Gguf(Mix::Q4_0), "gguf-q4_0", "GGUF Q4_0", APPS),
    row(Format::Gguf(Mix::F16), "gguf-f16", "GGUF F16", APPS),
    row(Format::Gguf(Mix::Bf16), "gguf-bf16", "GGUF BF16", APPS),
    row(Format::Gguf(Mix::F32), "gguf-f32", "GGUF F32", APPS),
    row(
        Format::GgufAdapter,
        "gguf-adapter",
        "GGUF adapter",
        "llama.cpp, Ollama",
    ),
    row(Format::Mlx, "mlx", "MLX model", "mlx-lm, LM Studio"),
    row(
        Format::MlxFourBits,
        "mlx-4bit",
        "MLX 4-bit",
        "mlx-lm, LM Studio",
    ),
    row(Format::MlxAdapter, "mlx-adapter", "MLX adapter", "mlx-lm"),
];

const fn row(
    format: Format,
    name: &'static str,
    title: &'static str,
    readers: &'static str,
) -> AboutFormat {
    let ending = match format {
        Format::Gguf(_) | Format::GgufAdapter => Some("gguf"),
        _ => None,
    };
    AboutFormat {
        format,
        name,
        title,
        ending,
        readers,
    }
}

impl Format {
    /// What is known of it.
    pub fn about(self) -> &'static AboutFormat {
        let is_it = |it: &&AboutFormat| it.format == self;
        FORMATS.iter().find(is_it).unwrap_or(&FORMATS[0])
    }

    /// The format of this name.
    pub fn of_name(name: &str) -> Option<Self> {
        FORMATS
            .iter()
            .find(|it| it.name == name)
            .map(|it| it.format)
    }

    /// Whether it is the adapter alone.
    pub fn is_adapter(self) -> bool {
        matches!(self, Self::Adapter | Self::GgufAdapter | Self::MlxAdapter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkpoint::gguf::MIXES;

    #[test]
    fn every_mix_is_a_format_and_every_format_is_found_by_its_name() {
        for mix in MIXES {
            assert_eq!(
                Format::Gguf(mix.mix).about().title,
                format!("GGUF {}", mix.name)
            );
        }
        for about in FORMATS {
            assert_eq!(Format::of_name(about.name), Some(about.format));
        }
    }
}

//! How many parameters a decoder has, before it is made: what a plan, an estimate and a preset count with.

use super::config::DecoderConfig;

impl DecoderConfig {
    /// The shape [outputs, inputs] of one of [`Self::linears`].
    pub fn linear_shape(&self, name: &str) -> Option<[usize; 2]> {
        let (d, f) = (self.hidden_size, self.intermediate_size);
        let (queries, keys) = (self.query_width(), self.key_width());
        Some(match name {
            "q_proj" => [queries, d],
            "k_proj" | "v_proj" => [keys, d],
            "qkv_proj" => [queries + 2 * keys, d],
            "o_proj" => [d, queries],
            "gate_proj" | "up_proj" => [f, d],
            "gate_up_proj" => [2 * f, d],
            "down_proj" => [d, f],
            _ => return None,
        })
    }

    /// The shortest window of a layer, where texts can be longer than it.
    pub fn shortest_window(&self) -> Option<usize> {
        let windows = self.layers.iter().filter_map(|it| it.window);
        windows
            .min()
            .filter(|it| *it < self.max_position_embeddings)
    }

    /// h · e: all queries of a token.
    pub fn query_width(&self) -> usize {
        self.num_attention_heads * self.head_dim
    }

    /// k · e: all keys of a token.
    pub fn key_width(&self) -> usize {
        self.num_key_value_heads * self.head_dim
    }

    /// Values of the linear weights of one layer, without biases.
    pub fn layer_linear_parameters(&self) -> u64 {
        let shapes = self.linears().iter().filter_map(|it| self.linear_shape(it));
        let sizes = shapes.map(|[outputs, inputs]| (outputs * inputs) as u64);
        sizes.sum()
    }

    /// Values of one layer: its linear weights, biases and norms.
    pub fn layer_parameters(&self) -> u64 {
        let (d, queries, keys) = (self.hidden_size, self.query_width(), self.key_width());
        let vectors = [
            (true, 2 * d),
            (self.post_norms, 2 * d),
            (self.qk_norm, 2 * self.head_dim),
            (self.qkv_bias, queries + 2 * keys),
            (self.output_bias, d),
            (self.mlp_bias, 2 * self.intermediate_size + d),
        ];
        let vectors = vectors.iter().filter(|(has, _)| *has);
        self.layer_linear_parameters() + vectors.map(|&(_, values)| values as u64).sum::<u64>()
    }

    /// Values of one table of tokens: the embeddings, or a head of its own.
    pub fn table_parameters(&self) -> u64 {
        (self.vocab_size * self.hidden_size) as u64
    }

    /// Values of the whole model, without adapters.
    pub fn parameters(&self) -> u64 {
        let tables = if self.tie_word_embeddings { 1 } else { 2 };
        let last_norm = self.hidden_size as u64;
        let layers = self.layers.len() as u64 * self.layer_parameters();
        tables * self.table_parameters() + layers + last_norm
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value as Json, json};

    use super::*;

    #[test]
    fn published_models_have_as_many_parameters_as_their_cards_say() {
        // SmolLM2 135M, Mistral 7B v0.1, Phi 3 mini 4k, Qwen 2.5 0.5B, Qwen 3 0.6B, Gemma 2 2B, Gemma 3 1B, SmolLM 3 3B, with
        // the counts of transformers' `num_parameters()`.
        let cases = "
            llama 49152 576 1536 30 9 3 64 true 134515008
            mistral 32000 4096 14336 32 32 8 128 false 7241732096
            phi3 32064 3072 8192 32 32 32 96 false 3821079552
            qwen2 151936 896 4864 24 14 2 64 true 494032768
            qwen3 151936 1024 3072 28 16 8 128 true 596049920
            gemma2 256000 2304 9216 26 8 4 256 true 2614341888
            gemma3_text 262144 1152 6912 26 4 1 256 true 999885952
            smollm3 128256 2048 11008 36 16 4 128 true 3075098624";
        for case in cases.trim().lines() {
            let mut words = case.split_whitespace();
            let (model_type, parameters) = (words.next(), words.next_back());
            let numbers: Vec<Json> = words.map(|it| it.parse().unwrap()).collect();
            let [v, d, f, l, h, k, e, tied] = numbers.as_slice() else {
                unreachable!("{case}");
            };
            let config = json!({"model_type": model_type, "vocab_size": v, "hidden_size": d, "intermediate_size": f,
                "num_hidden_layers": l, "num_attention_heads": h, "num_key_value_heads": k, "head_dim": e,
                "tie_word_embeddings": tied});
            let config = DecoderConfig::from_json(&config).unwrap();
            let parameters: u64 = parameters.unwrap().parse().unwrap();
            assert_eq!(config.parameters(), parameters, "{case}");
        }
    }
}

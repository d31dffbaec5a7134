//! The APIs that are spoken, and what each can have.

/// Which API to speak; each is a file in `endpoint/`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Api {
    /// `/v1/chat/completions`.
    Chat,
    /// `/v1/completions`.
    Completions,
    /// Text Generation Inference's `/generate` and `/generate_stream`.
    HuggingfaceGenerate,
    /// Anthropic's `/v1/messages`.
    Messages,
    /// A line of the input file is a body, sent as it is.
    Raw,
    /// OpenAI's `/v1/responses`.
    Responses,
    /// SGLang's own `/generate`: each event has all of the text so far.
    SglangGenerate,
    /// Solido's `/rag/api/prompt`.
    SolidoRag,
    /// A body by a template of the user's.
    Template,
    /// Triton's generate extension, `v2/models/MODEL/generate[_stream]`, TensorRT-LLM inputs.
    TritonTensorrtllm,
    /// The same with vLLM inputs.
    TritonVllm,
    /// `/v1/embeddings` of texts.
    Embeddings,
    /// The same path with a chat's messages, images among them.
    ChatEmbeddings,
    /// The same path, an input with its image in one string.
    NimEmbeddings,
    /// `/v1/ranking`.
    NimRankings,
    /// `/v2/rerank`.
    CohereRankings,
    /// `/rerank` of text-embeddings-inference.
    HfTeiRankings,
    /// `/v1/infer`: what is seen in images.
    ImageRetrieval,
    /// `/v1/images/generations`.
    ImageGeneration,
    /// `/v1/images/edits`.
    ImageEdit,
    /// `/v1/audio/transcriptions`.
    AudioTranscription,
}

/// An API's name and nature.
struct Facts {
    api: Api,
    /// Of `--endpoint-type`: its own first, then others' names for it.
    names: &'static [&'static str],
    /// In names of folders and in files.
    tag: &'static str,
    /// Answers can come as events.
    streams: bool,
    /// Answers are text, whose tokens count.
    tokens: bool,
    /// `[DONE]` or its like ends a stream.
    marks_end: bool,
}

/// All of them.
const FACTS: &[Facts] = &[
    Facts {
        api: Api::Chat,
        names: &["chat", "multimodal", "vision"],
        tag: "openai-chat",
        streams: true,
        tokens: true,
        marks_end: true,
    },
    Facts {
        api: Api::Completions,
        names: &["completions"],
        tag: "openai-completions",
        streams: true,
        tokens: true,
        marks_end: true,
    },
    Facts {
        api: Api::HuggingfaceGenerate,
        names: &["huggingface_generate"],
        tag: "huggingface-generate",
        streams: true,
        tokens: true,
        marks_end: false,
    },
    Facts {
        api: Api::Messages,
        names: &["messages"],
        tag: "anthropic-messages",
        streams: true,
        tokens: true,
        marks_end: true,
    },
    Facts {
        api: Api::Raw,
        names: &["raw"],
        tag: "raw",
        streams: true,
        tokens: true,
        marks_end: false,
    },
    Facts {
        api: Api::Responses,
        names: &["responses"],
        tag: "openai-responses",
        streams: true,
        tokens: true,
        marks_end: true,
    },
    Facts {
        api: Api::SglangGenerate,
        names: &["sglang_generate"],
        tag: "sglang-generate",
        streams: true,
        tokens: true,
        marks_end: true,
    },
    Facts {
        api: Api::SolidoRag,
        names: &["solido_rag"],
        tag: "solido-rag",
        streams: true,
        tokens: true,
        marks_end: false,
    },
    Facts {
        api: Api::Template,
        names: &["template"],
        tag: "template",
        streams: true,
        tokens: true,
        marks_end: false,
    },
    Facts {
        api: Api::TritonTensorrtllm,
        names: &[
            "triton-tensorrtllm",
            "generate",
            "kserve",
            "triton_generate",
        ],
        tag: "triton-tensorrtllm",
        streams: true,
        tokens: true,
        marks_end: false,
    },
    Facts {
        api: Api::TritonVllm,
        names: &["triton-vllm"],
        tag: "triton-vllm",
        streams: true,
        tokens: true,
        marks_end: false,
    },
    Facts {
        api: Api::Embeddings,
        names: &["embeddings"],
        tag: "openai-embeddings",
        streams: false,
        tokens: false,
        marks_end: false,
    },
    Facts {
        api: Api::ChatEmbeddings,
        names: &["chat_embeddings"],
        tag: "openai-chat_embeddings",
        streams: false,
        tokens: false,
        marks_end: false,
    },
    Facts {
        api: Api::NimEmbeddings,
        names: &["nim_embeddings", "nvclip"],
        tag: "openai-nim_embeddings",
        streams: false,
        tokens: false,
        marks_end: false,
    },
    Facts {
        api: Api::NimRankings,
        names: &["nim_rankings", "rankings"],
        tag: "openai-nim_rankings",
        streams: false,
        tokens: false,
        marks_end: false,
    },
    Facts {
        api: Api::CohereRankings,
        names: &["cohere_rankings"],
        tag: "openai-cohere_rankings",
        streams: false,
        tokens: false,
        marks_end: false,
    },
    Facts {
        api: Api::HfTeiRankings,
        names: &["hf_tei_rankings"],
        tag: "openai-hf_tei_rankings",
        streams: false,
        tokens: false,
        marks_end: false,
    },
    Facts {
        api: Api::ImageRetrieval,
        names: &["image_retrieval"],
        tag: "openai-image_retrieval",
        streams: false,
        tokens: false,
        marks_end: false,
    },
    Facts {
        api: Api::ImageGeneration,
        names: &["image_generation"],
        tag: "openai-image_generation",
        streams: true,
        tokens: false,
        marks_end: false,
    },
    Facts {
        api: Api::ImageEdit,
        names: &["image_edit"],
        tag: "openai-image_edit",
        streams: false,
        tokens: false,
        marks_end: false,
    },
    Facts {
        api: Api::AudioTranscription,
        names: &["audio_transcription"],
        tag: "openai-audio_transcription",
        streams: false,
        tokens: false,
        marks_end: false,
    },
];

impl Api {
    /// All of them, in the order of the help.
    pub fn all() -> impl Iterator<Item = Api> {
        FACTS.iter().map(|facts| facts.api)
    }

    /// The API of this name in `--endpoint-type`.
    pub fn named(name: &str) -> Option<Api> {
        let found = FACTS.iter().find(|facts| facts.names.contains(&name));
        found.map(|facts| facts.api)
    }

    fn facts(self) -> &'static Facts {
        let mut all = FACTS.iter();
        // Each has its facts: a test looks.
        all.find(|facts| facts.api == self).unwrap_or(&FACTS[0])
    }

    /// Its name in `--endpoint-type`.
    pub fn name(self) -> &'static str {
        self.facts().names[0]
    }

    /// Its name in those of folders: `openai-chat`.
    pub fn tag(self) -> &'static str {
        self.facts().tag
    }

    /// True where an answer can come as a stream of events.
    pub fn streams(self) -> bool {
        self.facts().streams
    }

    /// True where an answer is text, so that it has output tokens.
    pub fn has_tokens(self) -> bool {
        self.facts().tokens
    }

    /// True where a stream that ends without its mark was cut.
    pub fn marks_end(self) -> bool {
        self.facts().marks_end
    }

    /// True where each event of a stream has all of the answer so far.
    pub fn repeats(self) -> bool {
        self == Api::SglangGenerate
    }

    /// True where a member of the body can fix the length of the answer.
    pub fn fixes_length(self) -> bool {
        let none = [
            Api::HuggingfaceGenerate,
            Api::Raw,
            Api::SolidoRag,
            Api::Template,
        ];
        !none.contains(&self)
    }

    /// True where a query ranks passages.
    pub fn ranks(self) -> bool {
        matches!(
            self,
            Api::NimRankings | Api::CohereRankings | Api::HfTeiRankings
        )
    }

    /// True where a request holds text of ours.
    pub fn takes_text(self) -> bool {
        !matches!(self, Api::ImageRetrieval | Api::AudioTranscription)
    }

    /// True where a request holds as many texts as are asked for, elsewhere it is one.
    pub fn takes_texts(self) -> bool {
        use Api::{Chat, ChatEmbeddings, Completions, Embeddings, NimEmbeddings};
        let lists = [Chat, ChatEmbeddings, Completions, Embeddings, NimEmbeddings];
        self.ranks() || lists.contains(&self)
    }

    /// True where a request can hold images.
    pub fn takes_images(self) -> bool {
        use Api::{Chat, ChatEmbeddings, ImageEdit, ImageRetrieval, NimEmbeddings};
        [
            Chat,
            ChatEmbeddings,
            ImageEdit,
            ImageRetrieval,
            NimEmbeddings,
        ]
        .contains(&self)
    }

    /// True where it must.
    pub fn needs_images(self) -> bool {
        matches!(self, Api::ImageEdit | Api::ImageRetrieval)
    }

    /// True where a request can hold recordings.
    pub fn takes_audio(self) -> bool {
        matches!(self, Api::Chat | Api::AudioTranscription)
    }

    /// True where the model stands in the path.
    pub fn is_triton(self) -> bool {
        matches!(self, Api::TritonTensorrtllm | Api::TritonVllm)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn each_api_has_facts_of_its_own_and_no_name_is_given_twice() {
        for api in Api::all() {
            assert_eq!(Api::named(api.name()), Some(api));
            assert_eq!(api.facts().api, api);
        }
        let names: Vec<&str> = FACTS
            .iter()
            .flat_map(|facts| facts.names)
            .copied()
            .collect();
        let apart: HashSet<&str> = names.iter().copied().collect();
        assert_eq!(names.len(), apart.len());
    }
}

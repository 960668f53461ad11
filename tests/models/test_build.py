import json
import shutil
from concurrent.futures import ThreadPoolExecutor

import huggingface_hub
import pytest
import torch

from core.models import build, shipped_bases
from core.models.build import load, load_folder
from core.models.shipped_bases import ModelNotFound
from core.spec import ModelSpec


@pytest.fixture
def folder(any_model, tmp_path):
    any_model.save(tmp_path)
    return tmp_path


def test_what_is_saved_is_loaded(any_model, folder):
    lm = load(ModelSpec(kind=any_model.kind, base=str(folder)))
    assert (lm.kind, lm.causal, lm.context) == (any_model.kind, any_model.kind == "gpt2", 256)
    assert not lm.model.training
    ids = torch.tensor([[5, 9, 40, 41]])
    torch.testing.assert_close(lm.head(lm.hidden(ids)), any_model.model(input_ids=ids).logits)
    text = "Room 3.14, level 2: MRN-44"
    assert lm.tokenizer(text)["input_ids"] == any_model.tokenizer(text)["input_ids"]
    assert sorted(path.suffix for path in folder.iterdir()) == [".json"] * len(list(folder.glob("*.json"))) + [
        ".safetensors"
    ]


def test_a_loaded_model_lives_on_the_usual_device(any_model, folder, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert build.usual_device().type == "cuda"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert load_folder(folder).device == build.usual_device() == torch.device("cpu")
    monkeypatch.setattr(build, "usual_device", lambda: torch.device("meta"))  # stands for a GPU: weights leave the CPU
    lm = load_folder(folder)
    assert lm.device.type == "meta" and {weight.device.type for weight in lm.model.parameters()} == {"meta"}
    assert lm.head(torch.zeros(1, 32, device=lm.device)).device.type == "meta"


def test_models_may_be_loaded_from_many_threads_at_once(any_model, folder):
    """Two visitors who open two models: without a lock transformers takes tied weights for missing ones."""
    with ThreadPoolExecutor(4) as pool:
        loaded = list(pool.map(lambda _: load_folder(folder), range(12)))
    expected = any_model.model.state_dict()
    for lm in loaded:
        assert all(torch.equal(weight, expected[name]) for name, weight in lm.model.state_dict().items())


def test_padding_does_not_change_hidden_states(any_model):
    ids = torch.tensor([[5, 9, 40, 41, 6, 7]])
    attention = torch.tensor([[1, 1, 1, 1, 0, 0]])
    with torch.no_grad():
        padded = any_model.hidden(ids, attention)[:, :4]
        torch.testing.assert_close(padded, any_model.hidden(ids[:, :4]), atol=1e-5, rtol=1e-4)


def test_the_configuration_is_the_one_promised(models):
    sizes = {}
    for size in ("micro", "tiny", "small"):
        for kind, lm in models.items():
            config = build._config(kind, size, lm.tokenizer)
            config.vocab_size = build.VOCABULARY
            with torch.device("meta"):
                sizes[kind, size] = build._model_class(kind).from_config(config).num_parameters()
    assert all(3.5e5 <= count <= 3.8e5 for (_, size), count in sizes.items() if size == "micro")
    assert all(1.0e6 <= count <= 1.3e6 for (_, size), count in sizes.items() if size == "tiny")
    assert all(4.0e6 <= count <= 5.0e6 for (_, size), count in sizes.items() if size == "small")
    for lm in models.values():
        assert not [module.p for module in lm.model.modules() if isinstance(module, torch.nn.Dropout) and module.p]
        assert lm.model.get_input_embeddings().weight is lm.model.get_output_embeddings().weight


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "model.safetensors"])
def test_a_missing_file_is_named(gpt2, tmp_path, name):
    gpt2.save(tmp_path)
    (tmp_path / name).unlink()
    with pytest.raises(ModelNotFound) as error:
        load_folder(tmp_path)
    assert name in str(error.value) and str(tmp_path) in str(error.value)


def test_pickled_weights_are_not_weights(gpt2, tmp_path):
    gpt2.save(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    torch.save(gpt2.model.state_dict(), tmp_path / "pytorch_model.bin")
    with pytest.raises(ModelNotFound, match="has no file model.safetensors"):
        load_folder(tmp_path)


@pytest.mark.parametrize("name", ["evil.bin", "../model.safetensors", "model.safetensors/../evil.bin"])
@pytest.mark.parametrize("beside", [False, True])
def test_an_index_that_names_other_weights_is_refused_before_they_are_read(gpt2, tmp_path, monkeypatch, name, beside):
    """By its ending transformers takes a shard of an index for a pickle, whatever it was told about safetensors."""
    gpt2.save(tmp_path)
    torch.save(gpt2.model.state_dict(), tmp_path / "evil.bin")
    weights = dict.fromkeys(gpt2.model.state_dict(), name)
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": weights}))
    if not beside:
        (tmp_path / "model.safetensors").unlink()
    monkeypatch.setattr(torch, "load", lambda *args, **kwargs: pytest.fail("a pickle was read"))
    with pytest.raises(ModelNotFound, match="and only safetensors in the same place are loaded"):
        load_folder(tmp_path)


def test_weights_in_several_files_are_loaded(gpt2, tmp_path):
    gpt2.model.save_pretrained(tmp_path, max_shard_size="200KB")
    gpt2.tokenizer.save_pretrained(tmp_path)
    assert (tmp_path / "model.safetensors.index.json").exists() and not (tmp_path / "model.safetensors").exists()
    for one, other in zip(load_folder(tmp_path).model.parameters(), gpt2.model.parameters(), strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("share", [0.0, 0.01, 0.6])
def test_an_interrupted_download_is_said(any_model, folder, share):
    weights = folder / "model.safetensors"
    content = weights.read_bytes()
    weights.write_bytes(content[: int(share * len(content))])
    with pytest.raises(ModelNotFound, match="damaged or incomplete.*download"):
        load_folder(folder)


def test_weights_of_another_shape_or_missing_tensors_are_said(gpt2, tmp_path):
    gpt2.save(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | {"n_embd": 64}))
    with pytest.raises(ModelNotFound, match="damaged"):
        load_folder(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(config | {"n_layer": 3}))
    with pytest.raises(ModelNotFound, match="transformer.h.2"):
        load_folder(tmp_path)


@pytest.mark.parametrize("content", ["", "{", "[]", "{}"])
@pytest.mark.parametrize("name", ["config.json", "tokenizer.json"])
def test_damaged_json_is_said(gpt2, tmp_path, name, content):
    gpt2.save(tmp_path)
    (tmp_path / name).write_text(content)
    with pytest.raises(ModelNotFound, match="damaged"):
        load_folder(tmp_path)


def test_another_kind_than_asked_for_is_said(models, tmp_path):
    models["bert"].save(tmp_path)
    with pytest.raises(ValueError, match="holds a bert model, not a gpt2 model"):
        load(ModelSpec(kind="gpt2", base=str(tmp_path)))
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | {"model_type": "roberta"}))
    with pytest.raises(ValueError, match="'roberta': choose gpt2, distilbert, bert"):
        load_folder(tmp_path)


def test_a_base_that_reads_fewer_tokens_than_the_attacks_need_is_refused(gpt2, tmp_path):
    """Else it would train for an epoch and then fail on the first long note."""
    gpt2.save(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    assert config["n_positions"] >= build.CONTEXT
    model = type(gpt2.model)(type(gpt2.model.config)(**config | {"n_positions": build.CONTEXT - 1}))
    model.save_pretrained(tmp_path)
    with pytest.raises(ValueError, match=f"reads {build.CONTEXT - 1} tokens at a time, and the attacks need 256"):
        load(ModelSpec(kind="gpt2", base=str(tmp_path)))


@pytest.mark.parametrize(("kind", "lacking"), [("gpt2", "bos_token"), ("bert", "mask_token")])
def test_a_tokenizer_without_a_special_token_is_refused(models, tmp_path, kind, lacking):
    """Its id would be None, which fails only when the first text is read."""
    models[kind].save(tmp_path)
    (tmp_path / "tokenizer_config.json").write_text("{}")
    (tmp_path / "special_tokens_map.json").unlink(missing_ok=True)
    marks = {"gpt2": "<|endoftext|>", "bert": "[MASK]"}
    words = (tmp_path / "tokenizer.json").read_text()
    (tmp_path / "tokenizer.json").write_text(words.replace(marks[kind], "</x>"))
    with pytest.raises(ModelNotFound, match=f"Its tokenizer has no .*{lacking}"):
        load_folder(tmp_path)


def test_the_model_of_a_run_is_no_public_base(gpt2, tmp_path):
    """It has read notes, so an ε of what is trained from it would not cover them."""
    run = tmp_path / "gpt2-0123456789ab"
    (run / "model").mkdir(parents=True)
    gpt2.save(run / "model")
    assert load(ModelSpec(kind="gpt2", base=str(run / "model"))).kind == "gpt2"
    (run / "spec.json").write_text("{}")
    with pytest.raises(ValueError, match="A base model must have read none of a hospital's notes"):
        load(ModelSpec(kind="gpt2", base=str(run / "model")))
    assert load_folder(run / "model").kind == "gpt2", "the run itself is read"


def test_a_hub_name_without_a_hub_says_what_was_looked_for(monkeypatch, tmp_path):
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(ModelNotFound) as error:
        load(ModelSpec(kind="gpt2", base="distilgpt2"))
    for part in ("'distilgpt2'", "config.json", "model.safetensors", "hf download distilgpt2"):
        assert part in str(error.value)
    assert "neither a shipped base (clinical, assets) nor a folder" in str(error.value)
    with pytest.raises(ModelNotFound, match=r"There is no folder .*nowhere with a model\."):
        load(ModelSpec(kind="gpt2", base=str(tmp_path / "nowhere")))


def test_a_size_that_is_not_shipped_says_how_to_make_it(monkeypatch, tmp_path):
    monkeypatch.setattr(shipped_bases, "BASE_MODELS", tmp_path)
    with pytest.raises(ModelNotFound, match="python -m core pretrain --model bert --size small"):
        load(ModelSpec(kind="bert", size="small"))


def test_a_folder_as_the_hub_gives_it_is_completed(gpt2, tmp_path):
    """gpt2 on the hub names no special tokens beside the tokenizer, and its activation is gelu_new."""
    gpt2.save(tmp_path)
    (tmp_path / "tokenizer_config.json").write_text('{"model_max_length": 1024}')
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | {"activation_function": "gelu_new"}))
    lm = load_folder(tmp_path)
    assert lm.tokenizer.bos_token_id == lm.tokenizer.eos_token_id == lm.tokenizer.pad_token_id == 0
    ids = torch.tensor([[5, 9, 40, 41]])
    torch.testing.assert_close(lm.model(input_ids=ids).logits, gpt2.model(input_ids=ids).logits)


def test_code_that_comes_with_a_model_is_not_run(gpt2, tmp_path):
    gpt2.save(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    config |= {"auto_map": {"AutoConfig": "evil.Config", "AutoModelForCausalLM": "evil.Model"}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    marker = tmp_path / "ran"
    (tmp_path / "evil.py").write_text(f"open({str(marker)!r}, 'w')")
    load_folder(tmp_path)
    assert not marker.exists()
    shutil.rmtree(tmp_path)

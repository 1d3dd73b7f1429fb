"""Recipes as files."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mixprec.specs import Accumulator, LayerPrecision, LossScale, Phase, Recipe, Rule, load_recipe, recipe, recipe_names

NARROW_SUMS = Accumulator(mantissa_bits=14, rounding="nearest-even", promote_every=128)
MINE = Recipe(
    name='quotes " and \\ and ü',
    rules=(
        Rule(match="head"),
        Rule(match="a.*", type="Linear", divisible_by=16, min_size=64, precision=LayerPrecision(), required=False),
        Rule(first_blocks=2, last_blocks=0.15, precision=LayerPrecision.uniform("bf16")),
        Rule(head=True, embeddings=True),
        Rule(type="qk", precision=LayerPrecision.uniform("e4m3[tensor]", accumulator=NARROW_SUMS)),
        Rule(precision=LayerPrecision(accumulator=NARROW_SUMS)),
        Rule(precision=LayerPrecision.of(input="e4m3[tensor] delayed(16,recent,1)", weight="mxfp8 rceil")),
    ),
    phases=(
        Phase(from_step=1000, rules=(Rule(head=True), Rule(precision=LayerPrecision.uniform("mxfp8")))),
        Phase(last=0.2),
    ),
    compute_dtype="fp16",
    residual="compute",
    loss_scale=LossScale(kind="dynamic", initial=4.0, growth=1.5, interval=100, minimum=0.5),
    weights="true",
    engine="emulated",
    reason="two\nlines",
)


@pytest.mark.parametrize("name", recipe_names())
def test_named_recipes_survive_the_file(name: str):
    assert Recipe.from_toml(recipe(name).to_toml()) == recipe(name)


def test_every_field_survives_the_file():
    assert Recipe.from_toml(MINE.to_toml()) == MINE
    assert Recipe.from_toml(MINE.to_toml()).to_toml() == MINE.to_toml()


def test_phases_and_structural_rules_by_hand():
    text = """
        name = "mine"
        [[rules]]
        last_blocks = 2
        precision = "bf16"
        [[rules]]
        head = true
        [[rules]]
        precision = {input = "e4m3[tensor]", weight = "e4m3[tensor]", accumulator = "m14 rtz promote128"}
        [[phases]]
        from_step = 1000
        [[phases.rules]]
        embeddings = true
        [[phases]]
        last = 0.1
    """
    sums = Accumulator(mantissa_bits=14, promote_every=128)
    assert Recipe.from_toml(text) == Recipe(
        name="mine",
        rules=(
            Rule(last_blocks=2, precision=LayerPrecision.uniform("bf16")),
            Rule(head=True),
            Rule(precision=LayerPrecision.of(input="e4m3[tensor]", weight="e4m3[tensor]", accumulator=sums)),
        ),
        phases=(Phase(from_step=1000, rules=(Rule(embeddings=True),)), Phase(last=0.1)),
    )


def test_a_hand_written_file_is_short():
    text = """
        name = "mine"
        compute_dtype = "bf16"
        residual = "bf16"
        [loss_scale]
        kind = "static"
        initial = 1024
        [[rules]]
        match = "*head"
        [[rules]]
        type = "Linear"
        precision = "mxfp8 rceil"
        [[rules]]
        precision = {input = "e4m3[tensor]", grad_output = "e5m2[tensor]"}
    """
    assert Recipe.from_toml(text) == Recipe(
        name="mine",
        compute_dtype="bf16",
        residual="compute",
        loss_scale=LossScale(kind="static", initial=1024.0),
        rules=(
            Rule(match="*head"),
            Rule(type="Linear", precision=LayerPrecision.uniform("mxfp8 rceil")),
            Rule(precision=LayerPrecision.of(input="e4m3[tensor]", grad_output="e5m2[tensor]")),
        ),
    )


@pytest.mark.parametrize("said", ["", "[loss_scale]"])
def test_fp16_without_a_word_on_the_loss_scale_has_the_default_one(said: str):
    read = Recipe.from_toml(f'name = "a"\ncompute_dtype = "fp16"\n{said}')
    assert read.loss_scale == recipe("fp16").loss_scale == LossScale(kind="dynamic")
    assert Recipe.from_toml(read.to_toml()) == read
    off = Recipe.from_toml('name = "a"\ncompute_dtype = "fp16"\n[loss_scale]\nkind = "none"')
    assert off.loss_scale == LossScale()
    assert Recipe.from_toml(off.to_toml()) == off


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("name = ", "the recipe is not TOML"),
        (
            "name = 'a'\n[loss_scale]\ninitial = 1024",
            'loss_scale has initial and no kind: expected kind = "static" or "dynamic"',
        ),
        ("name = 'a'\n[loss_scale]\nkind = 'dynamik'", "loss_scale: unknown loss scale 'dynamik'.*'dynamic'"),
        ("compute_dtype = 'bf16'", "the recipe has no name"),
        ("name = 'a'\ncompute_type = 'bf16'", "unknown key in recipe: 'compute_type'.*did you mean 'compute_dtype'"),
        ("name = 3", "recipe.name is 3 \\(int\\), expected str"),
        ("name = 'a'\nrules = 3", "recipe.rules is 3 \\(int\\), expected tables: \\[\\[rules\\]\\]"),
        ("name = 'a'\nrules = [3]", "rules\\[0\\] is 3, expected a table"),
        ("name = 'a'\nresidual = 'fp16'", "residual is 'fp16'"),
        (
            "name = 'a'\nloss_scale = 'none'",
            "recipe.loss_scale is 'none' \\(str\\), expected a table: \\[loss_scale\\]",
        ),
        ("name = 'a'\n[rules]\nmatch = '*'", "recipe.rules is .*, expected tables: \\[\\[rules\\]\\]"),
        ("name = 'a'\n[loss_scale]\nkind = 'none'\ninital = 3", "unknown key in loss_scale: 'inital'.*'initial'"),
        ("name = 'a'\n[loss_scale]\nkind = 'dynamic'\ngrowth_interval = 3", "'growth_interval'.*mean 'interval'"),
        ("name = 'a'\n[loss_scale]\ninitial = true", "loss_scale.initial is True \\(bool\\), expected float"),
        ("name = 'a'\n[loss_scale]\ninterval = 1.5", "loss_scale.interval is 1.5 \\(float\\), expected int"),
        ("name = 'a'\n[[rules]]\nmach = '*'", "unknown key in rules\\[0\\]: 'mach'.*did you mean 'match'"),
        ("name = 'a'\n[[rules]]\nrequired = 1", "rules\\[0\\].required is 1 \\(int\\), expected bool"),
        ("name = 'a'\n[[rules]]\nprecision = 8", "rules\\[0\\].precision is 8"),
        ("name = 'a'\n[[rules]]\nprecision = 'mxfp9'", "unknown format 'mxfp9'"),
        ("name = 'a'\n[[rules]]\nprecision = {inputs = 'mxfp8'}", "unknown key in rules\\[0\\].precision"),
        ("name = 'a'\n[[rules]]\nprecision = {input = 8}", "rules\\[0\\].precision.input is 8"),
        ("name = 'a'\n[[rules]]\nprecision = {input = 'mxfp8', fprop_weight = 'mxfp8'}", "unknown key"),
        ("name = 'a'\n[[rules]]\n[[rules]]\nprecision = 'mxfp9'", "rules\\[1\\].precision: unknown format 'mxfp9'"),
        ("name = 'a'\n[[rules]]\nprecision = {input = 'mxfp9'}", "rules\\[0\\].precision: unknown format 'mxfp9'"),
        (
            "name = 'a'\n[[rules]]\nprecision = {wgrad_input = 'mxfp4 ht32'}",
            "rules\\[0\\].precision: wgrad_grad_output is 'None' and .*the same transform",
        ),
        ("name = 'a'\n[[rules]]\nprecision = {accumulator = 14}", "rules\\[0\\].precision.accumulator is 14 \\(int\\)"),
        (
            "name = 'a'\n[[rules]]\nprecision = {accumulator = 'm14'}",
            "rules\\[0\\].precision: accumulator 'm14' cannot",
        ),
        ("name = 'a'\n[[rules]]\nhead = 1", "rules\\[0\\].head is 1 \\(int\\), expected bool"),
        ("name = 'a'\n[[rules]]\nfirst_blocks = '2'", "rules\\[0\\].first_blocks is '2' \\(str\\), expected float"),
        (
            "name = 'a'\n[[rules]]\nlast_blocks = 1.5",
            "rules\\[0\\]: rule for '\\*' has last_blocks=1.5, expected a whole",
        ),
        ("name = 'a'\n[[rules]]\nlast_blocks = nan", "rules\\[0\\]: rule for '\\*' has last_blocks=nan"),
        ("name = 'a'\nphases = 3", "recipe.phases is 3 \\(int\\), expected tables: \\[\\[phases\\]\\]"),
        ("name = 'a'\nphases = [3]", "phases\\[0\\] is 3, expected a table: \\[\\[phases\\]\\]"),
        ("name = 'a'\n[[phases]]\nlast = 0.1\nrules = [3]", "rules\\[0\\] is 3, .*\\[\\[phases.rules\\]\\]"),
        (
            "name = 'a'\n[[phases]]\nrules = []",
            "phases\\[0\\]: phase has from_step=None, last=None, when=None: expected",
        ),
        ("name = 'a'\n[[phases]]\nfrom_step = 2.5", "phases\\[0\\].from_step is 2.5 \\(float\\), expected int"),
        ("name = 'a'\n[[phases]]\nlast = 1", "phases\\[0\\]: phase has from_step=None, last=1.0: expected a step"),
        (
            "name = 'a'\n[[phases]]\nform_step = 2",
            "unknown key in phases\\[0\\]: 'form_step'.*did you mean 'from_step'",
        ),
        ("name = 'a'\n[[phases]]\nfrom_step = 2\n[[phases]]\nfrom_step = 2", "its phases are out of order"),
        (
            "name = 'a'\n[[phases]]\nfrom_step = 2\n[[phases.rules]]\nmin_size = 0",
            "phases\\[0\\].rules\\[0\\]: rule for '\\*' has min_size=0",
        ),
    ],
)
def test_mistakes_are_told(text: str, reason: str):
    with pytest.raises(ValueError, match=reason):
        Recipe.from_toml(text)


def test_load_by_name_and_by_path(tmp_path: Path):
    assert load_recipe("nvfp4") == recipe("nvfp4")
    file = tmp_path / "mine.toml"
    file.write_text(MINE.to_toml(), encoding="utf-8")
    assert load_recipe(file) == MINE
    assert load_recipe(str(file)) == MINE


def test_an_operand_may_be_left_in_the_compute_dtype_by_name():
    text = 'name = "a"\n[[rules]]\nprecision = {input = "mxfp8", weight = "compute"}'
    assert Recipe.from_toml(text).rules[0].precision == LayerPrecision.of(input="mxfp8")


def test_a_mark_of_byte_order_is_no_text(tmp_path: Path):
    file = tmp_path / "mine.toml"
    file.write_text("\ufeff" + MINE.to_toml(), encoding="utf-8")
    assert load_recipe(file) == MINE


def test_load_tells_what_is_wrong_with_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"no recipe file at 'absent.toml': give a path"):
        load_recipe("absent.toml")
    with pytest.raises(ValueError, match=r"unknown recipe 'mxfp'.*did you mean 'mxfp"):
        load_recipe("mxfp")
    with pytest.raises(OSError, match="directory"):
        load_recipe(tmp_path)
    Path("latin.toml").write_bytes(b"name = '\xe4'")
    with pytest.raises(ValueError, match=r"recipe file 'latin.toml' is not UTF-8 text"):
        load_recipe("latin.toml")
    Path("bad.toml").write_text("nam = 'a'", encoding="utf-8")
    with pytest.raises(ValueError, match=r"recipe file 'bad.toml': unknown key in recipe: 'nam'.*did you mean 'name'"):
        load_recipe("bad.toml")


def test_a_file_named_as_a_recipe_needs_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    Path("bf16").write_text(MINE.to_toml(), encoding="utf-8")
    assert load_recipe("bf16") == recipe("bf16")
    assert load_recipe("./bf16") == MINE


@given(
    st.text(min_size=1),
    st.text(min_size=1),
    st.text(),
    st.floats(min_value=2.0**-24, max_value=2.0**127),
    st.integers(min_value=1),
)
def test_any_text_and_number_survives_the_file(name: str, match: str, reason: str, initial: float, interval: int):
    mine = Recipe(
        name=name,
        reason=reason,
        rules=(Rule(match=match),),
        loss_scale=LossScale(kind="static", initial=initial, interval=interval),
    )
    assert Recipe.from_toml(mine.to_toml()) == mine

# SPDX-License-Identifier: Apache-2.0
"""nemotron: a thin binding of libnemotron by ctypes; nothing to compile, nothing but Python's own library.

    import nemotron
    with nemotron.Model("models/tiny") as model, nemotron.Engine(model) as engine:
        for piece in engine.chat([{"role": "user", "content": "What is a dog?"}]):
            print(piece, end="", flush=True)

The structs below mirror include/nh field by field. Each carries its size, so that a library that knows more fields, or fewer, still serves
this file; what the library does not know and is set is refused by it. Breaks first: the order of fields, which the test of the installation
compares with the headers.
"""

import ctypes
import json
import os
import time
from ctypes import (POINTER, Structure, byref, c_bool, c_char, c_char_p, c_double, c_float, c_int32, c_int64, c_size_t, c_uint32,
                    c_uint64, c_void_p, sizeof)

VERSION = 0 << 16 | 1 << 8 | 0  # of the headers that this file mirrors

OK, ERR_LIMIT, ERR_STATE, ERR_TIMEOUT = 0, -8, -13, -14
EVENT_PROMPT, EVENT_TOKEN, EVENT_DONE, EVENT_ERROR, EVENT_EMBEDDING = 1, 2, 3, 4, 5
FINISH = ("none", "end", "stop", "length", "context", "cancelled", "error", "deadline")
EMBED = {None: 0, "last": 1, "mean": 2}
TOKENIZE_SPECIAL, TOKENIZE_PLAIN, TOKENIZE_MARKED = 1, 2, 4
TEMPLATE_ADAPT = 1


class Error(Exception):
    """What the library says went wrong; `code` is an nh_status, `name` its name."""

    def __init__(self, code, text):
        super().__init__(text)
        self.code = code
        self.name = _lib.nh_status_name(code).decode()


# --- structs, as in include/nh ---


class _Error(Structure):
    _c_name_ = "nh_error"
    _fields_ = [("code", c_int32), ("text", c_char * 1020)]


class _ModelOptions(Structure):
    _c_name_ = "nh_model_options"
    _fields_ = [("size", c_size_t), ("cache_root", c_char_p), ("arm", c_char_p), ("numerics", c_char_p), ("kv_dtype", c_char_p),
                ("chat_template", c_char_p), ("threads", c_int32), ("check", c_bool), ("profile", c_bool), ("log", c_void_p),
                ("log_user", c_void_p), ("log_level", c_int32), ("progress", c_void_p), ("progress_user", c_void_p),
                ("load_format", c_char_p), ("like", c_char_p), ("layers", c_int32), ("uniform_routing", c_bool), ("dummy_seed", c_uint64),
                ("isa", c_char_p)]


class _ModelInfo(Structure):
    _c_name_ = "nh_model_info"
    _fields_ = [("size", c_size_t), ("path", c_char_p), ("name", c_char_p), ("identity", c_char_p), ("pattern", c_char_p),
                ("arm", c_char_p), ("numerics", c_char_p), ("kv_dtype", c_char_p), ("formats", c_char_p), ("layers", c_int32),
                ("hidden", c_int32), ("vocab", c_int32), ("chunk", c_int32), ("max_context", c_int64), ("weight_bytes", c_uint64),
                ("scratch_bytes", c_uint64), ("kv_bytes_token", c_uint64), ("state_bytes_sequence", c_uint64), ("has_w4a4", c_bool),
                ("load_bytes", c_uint64), ("load_us", c_uint64), ("dummy", c_bool), ("tier", c_char_p)]


class _EngineOptions(Structure):
    _c_name_ = "nh_engine_options"
    _fields_ = [("size", c_size_t), ("max_context", c_int64), ("step_tokens", c_int32), ("memory_bytes", c_uint64),
                ("max_sequences", c_int32), ("queue_limit", c_int32), ("no_prefix_cache", c_bool), ("spill_dir", c_char_p),
                ("spill_bytes", c_uint64), ("draft", c_int32), ("draft_tokens", c_int32)]


class _Bias(Structure):
    _c_name_ = "nh_bias"
    _fields_ = [("id", c_int32), ("add", c_float)]


class _RequestOptions(Structure):
    _c_name_ = "nh_request_options"
    _fields_ = [("size", c_size_t), ("prompt", POINTER(c_int32)), ("prompt_tokens", c_size_t), ("max_tokens", c_int64),
                ("temperature", c_double), ("top_p", c_double), ("min_p", c_double), ("top_k", c_int32), ("repetition_penalty", c_double),
                ("seed", c_uint64), ("ignore_end", c_bool), ("end_ids", POINTER(c_int32)), ("end_id_count", c_size_t),
                ("stop", POINTER(c_char_p)), ("stop_count", c_size_t), ("include_stop", c_bool), ("text", c_bool),
                ("skip_special", c_bool), ("split_reasoning", c_bool), ("starts_in_reasoning", c_bool), ("top_logprobs", c_int32),
                ("want_ids", POINTER(c_int32)), ("want_steps", c_size_t), ("want_per_step", c_size_t), ("prompt_top_logprobs", c_int32),
                ("prompt_want_ids", POINTER(c_int32)), ("prompt_want_per_position", c_size_t), ("prompt_logprobs", c_bool),
                ("forced", POINTER(c_int32)), ("forced_tokens", c_size_t), ("trace", c_void_p), ("trace_user", c_void_p),
                ("presence_penalty", c_double), ("frequency_penalty", c_double), ("bias", POINTER(_Bias)), ("bias_count", c_size_t),
                ("bad_words", POINTER(c_int32)), ("bad_word_lengths", POINTER(c_size_t)), ("bad_word_count", c_size_t),
                ("allowed_ids", POINTER(c_int32)), ("allowed_count", c_size_t), ("min_tokens", c_int64), ("choices", c_int32),
                ("priority", c_int32), ("deadline_us", c_int64), ("embed", c_int32), ("embed_normalise", c_bool), ("keep_session", c_bool),
                ("no_prefix_cache", c_bool), ("mask", c_void_p), ("mask_user", c_void_p), ("session", c_void_p)]


class _Logprob(Structure):
    _c_name_ = "nh_logprob"
    _fields_ = [("id", c_int32), ("rank", c_int32), ("logprob", c_double)]


class _RequestStats(Structure):
    _c_name_ = "nh_request_stats"
    _fields_ = [("prompt_tokens", c_uint64), ("computed_tokens", c_uint64), ("reused_tokens", c_uint64), ("generated_tokens", c_uint64),
                ("reasoning_tokens", c_uint64), ("queue_us", c_int64), ("first_token_us", c_int64), ("prefill_us", c_int64),
                ("decode_us", c_int64), ("total_us", c_int64), ("drafted_tokens", c_uint64), ("accepted_tokens", c_uint64),
                ("swaps", c_uint64), ("snapshot_bytes", c_uint64), ("reserved", c_uint64 * 8)]


class _Event(Structure):
    _c_name_ = "nh_event"
    _fields_ = [("size", c_size_t), ("type", c_int32), ("token", c_int32), ("position", c_int64), ("forced", c_bool), ("end_token", c_bool),
                ("best_id", c_int32), ("rank", c_int32), ("logprob", c_double), ("margin", c_double), ("top", POINTER(_Logprob)),
                ("top_count", c_size_t), ("want", POINTER(_Logprob)), ("want_count", c_size_t), ("reasoning", POINTER(c_char)),
                ("reasoning_bytes", c_size_t), ("content", POINTER(c_char)), ("content_bytes", c_size_t), ("finish", c_int32),
                ("stop_index", c_int32), ("stats", _RequestStats), ("error", _Error), ("choice", c_int32), ("last", c_bool),
                ("embedding", POINTER(c_float)), ("embedding_size", c_size_t)]


STRUCTS = (_Error, _ModelOptions, _ModelInfo, _EngineOptions, _Bias, _RequestOptions, _Logprob, _RequestStats, _Event)


# --- the library ---


def _load():
    """The library of this source tree if it is built there, else the installed one."""
    here = os.path.dirname(os.path.abspath(__file__))
    for name in (os.path.join(here, "..", "..", "build", "release", "libnemotron.so.0"), "libnemotron.so.0"):
        try:
            return ctypes.CDLL(name)
        except OSError as error:
            last = error
    raise last


_lib = _load()
_P, _PP = c_void_p, POINTER(c_void_p)
_SIGNATURES = {
    "nh_status_name": (c_char_p, [c_int32]),
    "nh_version_text": (c_char_p, []),
    "nh_version_check": (c_int32, [c_uint32, POINTER(_Error)]),
    "nh_free": (None, [_P]),
    "nh_model_options_init": (None, [POINTER(_ModelOptions), c_size_t]),
    "nh_model_open": (c_int32, [_PP, c_char_p, POINTER(_ModelOptions), POINTER(_Error)]),
    "nh_model_close": (None, [_P]),
    "nh_model_get_info": (None, [_P, POINTER(_ModelInfo), c_size_t]),
    "nh_model_tokenizer": (_P, [_P]),
    "nh_model_template": (_P, [_P]),
    "nh_tokenize": (c_int32, [_P, c_char_p, c_size_t, c_uint32, POINTER(POINTER(c_int32)), POINTER(c_size_t), POINTER(_Error)]),
    "nh_detokenize": (c_int32, [_P, POINTER(c_int32), c_size_t, c_bool, POINTER(POINTER(c_char)), POINTER(c_size_t), POINTER(_Error)]),
    "nh_template_render_marked": (c_int32, [_P, _P, c_char_p, c_size_t, c_uint32, c_int64, POINTER(POINTER(c_char)), POINTER(c_size_t),
                                            POINTER(_Error)]),
    "nh_template_render": (c_int32, [_P, c_char_p, c_size_t, c_uint32, c_int64, POINTER(POINTER(c_char)), POINTER(c_size_t),
                                     POINTER(_Error)]),
    "nh_engine_options_init": (None, [POINTER(_EngineOptions), c_size_t]),
    "nh_engine_open": (c_int32, [_PP, _P, POINTER(_EngineOptions), POINTER(_Error)]),
    "nh_engine_close": (None, [_P]),
    "nh_engine_submit": (c_int32, [_P, POINTER(_RequestOptions), _PP, POINTER(_Error)]),
    "nh_request_options_init": (None, [POINTER(_RequestOptions), c_size_t]),
    "nh_request_next": (c_int32, [_P, POINTER(_Event), c_size_t, c_int64]),
    "nh_request_cancel": (None, [_P]),
    "nh_request_release": (None, [_P]),
}
for _name, (_result, _arguments) in _SIGNATURES.items():
    _function = getattr(_lib, _name)
    _function.restype, _function.argtypes = _result, _arguments


def _call(name, *arguments):
    """Calls a function whose last argument is an nh_error; raises what it says."""
    error = _Error()
    code = getattr(_lib, name)(*arguments, byref(error))
    if code != OK:
        raise Error(code, error.text.decode("utf-8", "replace"))


def _options(struct, init, values, special):
    """An options struct with these fields set. special: fields that this module sets itself."""
    options = struct()
    getattr(_lib, init)(byref(options), sizeof(options))
    known = {name for name, _ in struct._fields_} - {"size"} - set(special)
    for name, value in values.items():
        if name not in known:
            raise TypeError("no such option: %s" % name)
        setattr(options, name, value.encode() if isinstance(value, str) else value)
    return options


def _bytes(pointer, size):
    return ctypes.string_at(pointer, size) if size else b""


_call("nh_version_check", VERSION)


def version():
    """Version of the library that is loaded."""
    return _lib.nh_version_text().decode()


# --- objects ---


class _Handle:
    """Something to close: a context manager."""

    _close = ""

    def __init__(self):
        self.handle = c_void_p()

    def close(self):
        handle, self.handle = self.handle, c_void_p()
        if handle:
            getattr(_lib, self._close)(handle)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Model(_Handle):
    """A checkpoint. Options: the fields of nh_model_options, e.g. numerics="exact"."""

    _close = "nh_model_close"

    def __init__(self, path, **options):
        super().__init__()
        given = _options(_ModelOptions, "nh_model_options_init", options, ("log", "log_user", "progress", "progress_user"))
        _call("nh_model_open", byref(self.handle), os.fsencode(path), byref(given))

    def info(self):
        """nh_model_info as a dict."""
        info = _ModelInfo()
        _lib.nh_model_get_info(self.handle, byref(info), sizeof(info))
        values = {name: getattr(info, name) for name, _ in _ModelInfo._fields_ if name != "size"}
        return {name: value.decode() if isinstance(value, bytes) else value for name, value in values.items()}

    def tokenize(self, text, special=False):
        """Token ids of a text; special: with what the tokenizer puts around a raw text."""
        return self._tokenize(text.encode(), TOKENIZE_SPECIAL if special else 0)

    def _tokenize(self, raw, flags):
        ids, count = POINTER(c_int32)(), c_size_t()
        _call("nh_tokenize", _lib.nh_model_tokenizer(self.handle), raw, len(raw), flags, byref(ids), byref(count))
        try:
            return ids[:count.value]
        finally:
            _lib.nh_free(ids)

    def detokenize(self, ids, skip_special=False):
        array, text, size = (c_int32 * len(ids))(*ids), POINTER(c_char)(), c_size_t()
        _call("nh_detokenize", _lib.nh_model_tokenizer(self.handle), array, len(ids), skip_special, byref(text), byref(size))
        try:
            return _bytes(text, size.value).decode("utf-8", "replace")
        finally:
            _lib.nh_free(text)

    def render(self, messages, **request):
        """The prompt of a chat. request: other keys of the chat request, e.g. tools, chat_template_kwargs."""
        return self._render("nh_template_render", [], messages, request).decode()

    def prompt(self, messages, **request):
        """The token ids of render's text, in which a control token's text makes that token only where it is the template's; and the text's end."""
        raw = self._render("nh_template_render_marked", [_lib.nh_model_tokenizer(self.handle)], messages, request)
        return self._tokenize(raw, TOKENIZE_MARKED), raw[-16:].decode("utf-8", "replace")

    def _render(self, function, by, messages, request):
        raw = json.dumps(dict(request, messages=messages)).encode()
        text, size = POINTER(c_char)(), c_size_t()
        _call(function, _lib.nh_model_template(self.handle), *by, raw, len(raw), TEMPLATE_ADAPT, int(time.time()), byref(text), byref(size))
        try:
            return _bytes(text, size.value)
        finally:
            _lib.nh_free(text)


class Event:
    """A copy of an nh_event that lives as long as it is wanted."""

    def __init__(self, raw):
        self.type, self.token, self.position = raw.type, raw.token, raw.position
        self.reasoning = _bytes(raw.reasoning, raw.reasoning_bytes).decode()
        self.content = _bytes(raw.content, raw.content_bytes).decode()
        self.logprob, self.choice = raw.logprob, raw.choice
        self.top = [(raw.top[i].id, raw.top[i].logprob) for i in range(raw.top_count)]
        self.embedding = raw.embedding[:raw.embedding_size] if raw.type == EVENT_EMBEDDING else None
        self.finish = FINISH[raw.finish] if 0 <= raw.finish < len(FINISH) else str(raw.finish)
        self.stats = {name: getattr(raw.stats, name) for name, _ in _RequestStats._fields_ if name != "reserved"}


class Request(_Handle):
    """A running request: iterate over its events. An ERROR event raises. Leaving the `with` early cancels it."""

    _close = "nh_request_release"

    def __init__(self, engine, ids, stop=(), embed=None, **options):
        super().__init__()
        special = ("prompt", "prompt_tokens", "stop", "stop_count", "embed")
        given = _options(_RequestOptions, "nh_request_options_init", options, special)
        given.prompt, given.prompt_tokens = (c_int32 * len(ids))(*ids), len(ids)
        given.stop, given.stop_count = (c_char_p * len(stop))(*[s.encode() for s in stop]), len(stop)
        given.embed = EMBED[embed]
        _call("nh_engine_submit", engine.handle, byref(given), byref(self.handle))  # copies all of it

    def cancel(self):
        _lib.nh_request_cancel(self.handle)

    def next(self, timeout_us=-1):
        """The next event; None after the last one, or when none came in time (then `waiting` is true)."""
        raw = _Event()
        code = _lib.nh_request_next(self.handle, byref(raw), sizeof(raw), timeout_us)
        self.waiting = code == ERR_TIMEOUT
        if code in (ERR_STATE, ERR_TIMEOUT):
            return None
        if code != OK:
            raise Error(code, "nh_request_next")
        if raw.type == EVENT_ERROR:
            raise Error(raw.error.code, raw.error.text.decode("utf-8", "replace"))
        return Event(raw)

    def __iter__(self):
        return iter(self.next, None)


class Engine(_Handle):
    """Runs requests on a model; options: the fields of nh_engine_options. Sampling options are the fields of nh_request_options."""

    _close = "nh_engine_close"

    def __init__(self, model, **options):
        super().__init__()
        self.model = model
        given = _options(_EngineOptions, "nh_engine_options_init", options, ())
        _call("nh_engine_open", byref(self.handle), model.handle, byref(given))

    def submit(self, ids, **options):
        return Request(self, ids, **options)

    def stream(self, ids, **options):
        """Pieces of text that continue these tokens."""
        with self.submit(ids, **dict({"text": True, "skip_special": True}, **options)) as request:
            for event in request:
                if event.content:
                    yield event.content

    def chat(self, messages, tools=None, thinking=None, **options):
        """Pieces of the answer to a chat, a list of {"role", "content"}. Thoughts are left out."""
        request = {} if tools is None else {"tools": tools}
        if thinking is not None:
            request["chat_template_kwargs"] = {"enable_thinking": thinking}
        ids, end = self.model.prompt(messages, **request)
        options = dict({"split_reasoning": True, "starts_in_reasoning": end.endswith(("<think>", "<think>\n"))}, **options)
        return self.stream(ids, **options)

    def batch(self, prompts, at_once=64, **options):
        """The texts that continue these texts, in their order. All run side by side, as far as memory goes."""
        options = dict({"text": True, "skip_special": True}, **options)
        answers, running, following = [""] * len(prompts), {}, 0
        try:
            while running or following < len(prompts):
                while following < len(prompts) and len(running) < at_once:
                    running[following] = self.submit(self.model.tokenize(prompts[following], special=True), **options)
                    following += 1
                for index in list(running):
                    event = running[index].next(2000 if index == min(running) else 0)
                    while event:
                        answers[index] += event.content
                        event = running[index].next(0)
                    if not running[index].waiting:
                        running.pop(index).close()
        finally:
            for request in running.values():
                request.close()
        return answers

    def embed(self, text, mean=True):
        """A vector of length 1 for a text."""
        ids = self.model.tokenize(text, special=True)
        with self.submit(ids, max_tokens=0, embed="mean" if mean else "last", embed_normalise=True) as request:
            return next(event.embedding for event in request if event.embedding is not None)

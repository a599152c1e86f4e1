/* SPDX-License-Identifier: Apache-2.0
 * test_model_dir.c: each way to name a model, and each way that leads nowhere.
 */
#include "test.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base_mem.h"
#include "fmt/model_dir.h"
#include "helper_fmt.h"

static char root[1024]; /* of the cache */

static void link_blob(const char *dir, const char *name, const char *target)
{
	char *path = fmt_path(dir, name);
	assert_int_equal(symlink(target, path), 0);
	mem_free(path);
}

/* One repository in the cache: blobs, snapshots aaa and (if two) bbb with links into blobs. */
static void make_repo(const char *repo, bool two, const char *ref)
{
	char name[256];
	snprintf(name, sizeof name, "%s/blobs/c0", repo);
	fmt_text(root, name, "{}");
	snprintf(name, sizeof name, "%s/blobs/w0", repo);
	fmt_text(root, name, "x");
	for (int i = 0; i < 1 + two; i++) {
		char dir[1400];
		snprintf(name, sizeof name, "%s/snapshots/%s/README", repo, i ? "bbb" : "aaa");
		fmt_text(root, name, "");
		snprintf(dir, sizeof dir, "%s/%s/snapshots/%s", root, repo, i ? "bbb" : "aaa");
		link_blob(dir, "config.json", "../../blobs/c0");
		link_blob(dir, "model.safetensors", "../../blobs/w0");
	}
	if (!ref) return;
	snprintf(name, sizeof name, "%s/refs/main", repo);
	fmt_text(root, name, ref);
}

static void finds(const char *arg, const char *cache, const char *tail, model_dir_kind kind)
{
	model_dir m;
	nh_error e = {0};
	if (model_dir_resolve(arg, cache, &m, &e) != NH_OK) fail_msg("%s: %s", arg, e.text);
	size_t n = strlen(m.dir), k = strlen(tail);
	if (n < k || strcmp(m.dir + n - k, tail) != 0) fail_msg("%s: found %s, expected ...%s", arg, m.dir, tail);
	assert_int_equal(m.kind, kind);
	char *config = model_dir_file(&m, "config.json");
	if (kind != MODEL_DIR_CONFIG_ONLY) assert_string_equal(config, m.config);
	mem_free(config);
	assert_null(model_dir_file(&m, "no.such"));
	model_dir_free(&m);
	assert_int_equal(mem_live(), 0);
}

static void refuses(const char *arg, const char *cache, nh_status code, const char *says)
{
	model_dir m;
	nh_error e = {0};
	nh_status s = model_dir_resolve(arg, cache, &m, &e);
	if (s != code || !strstr(e.text, says)) fail_msg("%s: %d %s, expected %d and \"%s\"", arg, s, e.text, code, says);
	assert_null(m.dir);
	assert_int_equal(mem_live(), 0);
}

static void folders_and_files(void **state)
{
	(void)state;
	char arg[1200];
	const char *dir = fmt_dir("folder");
	refuses(dir, NULL, NH_ERR_NOTFOUND, "has no config.json");
	fmt_text(dir, "config.json", "{}");
	fmt_text(dir, "other.json", "{}");
	finds(dir, NULL, strrchr(dir, '/'), MODEL_DIR_CONFIG_ONLY);
	snprintf(arg, sizeof arg, "%s/config.json", dir);
	finds(arg, NULL, strrchr(dir, '/'), MODEL_DIR_CONFIG_ONLY);
	fmt_text(dir, "model.safetensors.index.json", "{}");
	finds(arg, NULL, strrchr(dir, '/'), MODEL_DIR_INDEX_ONLY);
	fmt_text(dir, "model.safetensors", "x");
	finds(arg, NULL, strrchr(dir, '/'), MODEL_DIR_FULL);
	finds(dir, NULL, strrchr(dir, '/'), MODEL_DIR_FULL);
	snprintf(arg, sizeof arg, "%s/", dir);
	finds(arg, NULL, "/", MODEL_DIR_FULL);
	snprintf(arg, sizeof arg, "%s/other.json", dir); /* another name does not speak for its folder */
	finds(arg, NULL, strrchr(dir, '/'), MODEL_DIR_CONFIG_ONLY);
	snprintf(arg, sizeof arg, "%s/model.safetensors", dir);
	refuses(arg, NULL, NH_ERR_ARG, "expected a model folder");
	refuses("", NULL, NH_ERR_ARG, "empty");
	refuses("/dev/null", NULL, NH_ERR_ARG, "neither");
	dir = fmt_dir("dangling");
	link_blob(dir, "config.json", "../../blobs/gone");
	refuses(dir, NULL, NH_ERR_NOTFOUND, "config.json: is a link to a file that is not there");
	/* a small file that is lost must not pass for one that was never published; a shard's link may dangle */
	static const char *const SMALL[] = {
	    "generation_config.json", "hf_quant_config.json", "tokenizer.json", "chat_template.jinja", "model.safetensors.index.json"};
	for (size_t i = 0; i < ARRAY_LEN(SMALL); i++) {
		char folder[40];
		snprintf(folder, sizeof folder, "dangling%zu", i);
		dir = fmt_dir(folder);
		fmt_text(dir, "config.json", "{}");
		link_blob(dir, "model.safetensors", "../../blobs/gone");
		finds(dir, NULL, strrchr(dir, '/'), MODEL_DIR_FULL);
		link_blob(dir, SMALL[i], "../../blobs/gone");
		refuses(dir, NULL, NH_ERR_NOTFOUND, SMALL[i]);
	}
}

static void cache(void **state)
{
	(void)state;
	char arg[1400];
	snprintf(root, sizeof root, "%s", fmt_dir("hub"));
	make_repo("models--org--one", false, NULL);
	make_repo("models--org--two", true, NULL);
	make_repo("models--org--ref", true, "bbb\n");
	make_repo("models--org--stale", true, "ccc");
	make_repo("models--org--stale1", false, "ccc");
	make_repo("models--org--evil", true, "../../../etc");
	make_repo("models--plain", false, "aaa");
	fmt_text(root, "models--org--bare/refs/main", "aaa");
	fmt_text(root, "models--org--hollow/snapshots/.lock", "");

	finds("org/one", root, "models--org--one/snapshots/aaa", MODEL_DIR_FULL);
	finds("org/ref", root, "models--org--ref/snapshots/bbb", MODEL_DIR_FULL);
	finds("org/stale1", root, "snapshots/aaa", MODEL_DIR_FULL);
	finds("plain", root, "models--plain/snapshots/aaa", MODEL_DIR_FULL);
	refuses("org/two", root, NH_ERR_CONFIG, "aaa, bbb");
	refuses("org/stale", root, NH_ERR_CONFIG, "refs/main names none of them");
	refuses("org/evil", root, NH_ERR_CONFIG, "aaa, bbb");
	refuses("org/bare", root, NH_ERR_NOTFOUND, "snapshots");
	refuses("org/hollow", root, NH_ERR_NOTFOUND, "has no snapshot");
	refuses("org/none", root, NH_ERR_NOTFOUND, "models--org--none is not there");
	refuses("org/one", NULL, NH_ERR_NOTFOUND, "no cache to look into");
	refuses("org/one/two", root, NH_ERR_NOTFOUND, "not of the form org/name");
	refuses("../one", root, NH_ERR_NOTFOUND, "not of the form org/name");
	refuses("org/..", root, NH_ERR_NOTFOUND, "not of the form org/name");
	refuses("org/a b", root, NH_ERR_NOTFOUND, "not of the form org/name");

	/* the folder of the repository, and a snapshot itself */
	snprintf(arg, sizeof arg, "%s/models--org--ref", root);
	finds(arg, NULL, "snapshots/bbb", MODEL_DIR_FULL);
	snprintf(arg, sizeof arg, "%s/models--org--ref/snapshots/aaa", root);
	finds(arg, NULL, "snapshots/aaa", MODEL_DIR_FULL);
	snprintf(arg, sizeof arg, "%s/models--org--two/snapshots", root);
	refuses(arg, NULL, NH_ERR_NOTFOUND, "has no config.json");
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(folders_and_files), cmocka_unit_test(cache)};
	return cmocka_run_group_tests_name("model_dir", tests, NULL, NULL);
}

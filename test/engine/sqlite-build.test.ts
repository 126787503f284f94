import Database from 'better-sqlite3'
import { expect, test } from 'vitest'

/**
 * The SQL policy was made for what is in this build of SQLite. When a new better-sqlite3 brings a function, a module or a
 * PRAGMA, one of these tests fails: look at what the newcomer can reach (other files, the connection's settings, other
 * tables named by a text), refuse it in src/engine/sql-policy/sql-names.ts if need be, and add it here.
 */
const MODULES = words(`
  dbstat fts3 fts3tokenize fts4 fts4aux fts5 fts5vocab geopoly rtree rtree_i32`)

const FUNCTIONS = words(`
  -> ->> abs acos acosh asin asinh atan atan2 atanh avg bm25 ceil ceiling changes char coalesce concat
  concat_ws cos cosh count cume_dist current_date current_time current_timestamp date datetime degrees
  dense_rank exp first_value floor format fts3_tokenizer fts5 fts5_get_locale fts5_insttoken fts5_locale
  fts5_source_id geopoly_area geopoly_bbox geopoly_blob geopoly_ccw geopoly_contains_point geopoly_debug
  geopoly_group_bbox geopoly_json geopoly_overlap geopoly_regular geopoly_svg geopoly_within
  geopoly_xform glob group_concat hex highlight if ifnull iif instr json json_array json_array_insert
  json_array_length json_error_position json_extract json_group_array json_group_object json_insert
  json_object json_patch json_pretty json_quote json_remove json_replace json_set json_type json_valid
  jsonb jsonb_array jsonb_array_insert jsonb_extract jsonb_group_array jsonb_group_object jsonb_insert
  jsonb_object jsonb_patch jsonb_remove jsonb_replace jsonb_set julianday lag last_insert_rowid
  last_value lead length like likelihood likely ln load_extension log log10 log2 lower ltrim match
  matchinfo max median min mod nth_value ntile nullif octet_length offsets optimize percent_rank
  percentile percentile_cont percentile_disc pi pow power printf quote radians random randomblob rank
  replace round row_number rtreecheck rtreedepth rtreenode rtrim sign sin sinh snippet soundex
  sqlite_compileoption_get sqlite_compileoption_used sqlite_log sqlite_source_id sqlite_version sqrt
  strftime string_agg substr substring subtype sum tan tanh time timediff total total_changes trim trunc
  typeof unhex unicode unistr unistr_quote unixepoch unlikely upper zeroblob`)

/** One that is not on the policy's list is refused anyway; this is to notice what might be worth allowing. */
const PRAGMAS = words(`
  analysis_limit application_id auto_vacuum automatic_index busy_timeout cache_size cache_spill
  case_sensitive_like cell_size_check checkpoint_fullfsync collation_list compile_options count_changes
  data_version database_list defer_foreign_keys empty_result_callbacks encoding foreign_key_check
  foreign_key_list foreign_keys freelist_count full_column_names fullfsync function_list hard_heap_limit
  ignore_check_constraints incremental_vacuum index_info index_list index_xinfo integrity_check
  journal_mode journal_size_limit legacy_alter_table locking_mode max_page_count mmap_size module_list
  optimize page_count page_size pragma_list query_only quick_check read_uncommitted recursive_triggers
  reverse_unordered_selects schema_version secure_delete short_column_names shrink_memory
  soft_heap_limit synchronous table_info table_list table_xinfo temp_store temp_store_directory threads
  trusted_schema user_version wal_autocheckpoint wal_checkpoint writable_schema`)

function words(text: string): string[] {
  return text.trim().split(/\s+/)
}

function namesOf(list: string): string[] {
  const rows = new Database(':memory:').pragma(list) as { name: string }[]
  return [...new Set(rows.map(({ name }) => name))].sort()
}

test('no new virtual-table module', () => {
  expect(namesOf('module_list')).toEqual(MODULES)
})

test('no new function', () => {
  expect(namesOf('function_list')).toEqual(FUNCTIONS)
})

test('no new PRAGMA', () => {
  expect(namesOf('pragma_list')).toEqual(PRAGMAS)
})

test('build options that the lexer and the policy rest on', () => {
  const rows = new Database(':memory:').pragma('compile_options') as { compile_options: string }[]
  const options = rows.map((row) => row.compile_options)
  // The lexer reads `$a(b)` as four tokens; "x" is never a text; no table shows pages or bytecode.
  expect(options).toEqual(expect.arrayContaining(['OMIT_TCL_VARIABLE', 'DQS=0']))
  for (const absent of [
    'ENABLE_DBPAGE_VTAB',
    'ENABLE_BYTECODE_VTAB',
    'ENABLE_STMTVTAB',
    'ENABLE_FTS3_TOKENIZER',
  ]) {
    expect(options).not.toContain(absent)
  }
})

test("the driver is in defensive mode: neither the schema nor a module's own tables can be written", () => {
  const database = new Database(':memory:')
  database.exec('CREATE VIRTUAL TABLE ft USING fts5(a)')
  const run = (sql: string) => () => database.prepare(sql).run()
  expect(run("UPDATE sqlite_schema SET sql = ''")).toThrow(/may not be modified/)
  expect(run("UPDATE ft_data SET block = x'00'")).toThrow(/may not be modified/)
  expect(run('DROP TABLE ft_data')).toThrow(/may not be dropped/)
  expect(() => database.prepare("SELECT load_extension('x')").get()).toThrow(/not authorized/)
})

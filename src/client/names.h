/*
 * The parts of base and json that are linked into this library. Its static form has no hidden symbols, so these
 * functions have names here that no program of a stranger has. The build includes this file in front of every source.
 */
#ifndef CLIENT_NAMES_H
#define CLIENT_NAMES_H

#define base64_add           ih_base64_add
#define base64_decode        ih_base64_decode
#define base64url_put        ih_base64url_put
#define base64_is_valid      ih_base64_is_valid
#define ascii_is_printable   ih_ascii_is_printable
#define buf_add_slowly       ih_buf_add_slowly
#define buf_addf             ih_buf_addf
#define buf_consume          ih_buf_consume
#define buf_cut              ih_buf_cut
#define buf_fini             ih_buf_fini
#define buf_ok               ih_buf_ok
#define buf_reserve          ih_buf_reserve
#define buf_reset            ih_buf_reset
#define buf_str              ih_buf_str
#define buf_trim             ih_buf_trim
#define err_advice           ih_err_advice
#define err_advise           ih_err_advise
#define err_exit_code        ih_err_exit_code
#define err_prefix           ih_err_prefix
#define err_set              ih_err_set
#define err_words            ih_err_words
#define json_add_any_string  ih_json_add_any_string
#define json_add_string      ih_json_add_string
#define json_stream_free     ih_json_stream_free
#define json_stream_mistake  ih_json_stream_mistake
#define json_stream_new      ih_json_stream_new
#define json_stream_new_with ih_json_stream_new_with
#define json_stream_read     ih_json_stream_read
#define json_table_element   ih_json_table_element
#define json_table_read      ih_json_table_read
#define json_text_of         ih_json_text_of
#define utf8_character       ih_utf8_character
#define utf8_fit             ih_utf8_fit
#define utf8_is_valid        ih_utf8_is_valid
#define utf8_repair          ih_utf8_repair

#endif

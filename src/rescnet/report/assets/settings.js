// The configuration compared with its preset, the training command, and facts about the training.
function settings() {
  const { base, rows, command, rebuilt } = DATA.settings;
  const differing = rows.filter((row) => row.differs);
  const many = `${plural(differing.length, 'option')} ${differing.length === 1 ? 'differs' : 'differ'} from ${base}.`;
  addText(
    'settings-words',
    differing.length ? many : `All options have the values of ${base}.`,
    rebuilt ? 'Command that trains with these options:' : 'Training command:',
  );
  byId('command').append(command);
  const optionTable = (chosen) => {
    const all = table(
      ['option', 'value', base, 'meaning'],
      chosen.map((row) => [row.name, row.value, row.base, row.meaning]),
    );
    all.querySelectorAll('tbody tr').forEach((line, i) => {
      if (chosen[i].differs) line.className = 'differs';
      line.lastChild.className = 'soft';
    });
    return all;
  };
  if (differing.length) byId('settings-table').append(optionTable(differing));
  const rest = byId('settings-rest');
  rest.querySelector('summary').append(`All ${rows.length} options`);
  rest.querySelector('div').append(optionTable(rows));
  const { about } = DATA.summary;
  byId('about-table').append(about.length ? table(null, about) : node('p', null, 'No facts recorded.'));
}
